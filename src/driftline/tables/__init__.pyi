from ._cells import TableError as TableError
from ._encoder import TableEncoder as TableEncoder

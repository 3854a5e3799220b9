from ._cells import TableError as TableError
from ._encoder import Encoded as Encoded
from ._encoder import TableEncoder as TableEncoder
from ._evidence import Evidence as Evidence
from ._rows import Rows as Rows

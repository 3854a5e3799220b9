from ._coordinator import Coordinator as Coordinator
from ._exchange import SiteError as SiteError
from ._messages import VERSION as VERSION
from ._messages import MessageError as MessageError
from ._messages import merge as merge
from ._messages import relay as relay
from ._site import RowsWithheldError as RowsWithheldError
from ._site import Site as Site

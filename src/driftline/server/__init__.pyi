from ._app import create_app as create_app
from ._serving import Address as Address
from ._serving import Background as Background
from ._serving import ServeError as ServeError
from ._serving import serve as serve

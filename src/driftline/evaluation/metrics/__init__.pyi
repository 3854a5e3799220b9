from ._curves import PRD as PRD
from ._curves import prd as prd
from ._distances import KID as KID
from ._distances import fid as fid
from ._distances import kid as kid
from ._nearest import Neighbours as Neighbours
from ._nearest import neighbours as neighbours

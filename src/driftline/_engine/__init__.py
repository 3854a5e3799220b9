"""The engine of log-linear models: blocks of functions, one ledger of scores, errors as factors of groups of rows.

Read in this order: :mod:`_blocks` (the functions a model may use), :mod:`_basis` (all of them, frozen on an original),
:mod:`_groups` (rows that count together), :mod:`_ledger` (what the model leaves out), :mod:`_step` (one step of the
recursion), :mod:`_reading` (answers with their errors).
"""

from driftline._engine._basis import Basis, freeze
from driftline._engine._reading import divergence, log_ratio
from driftline._engine._step import Info, State, forget, start, step

__all__ = ["Basis", "Info", "State", "divergence", "forget", "freeze", "log_ratio", "start", "step"]

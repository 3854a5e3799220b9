from ._figure import write_png as write_png
from ._histories import History as History
from ._histories import ReportError as ReportError
from ._histories import histories as histories
from ._page import write_report as write_report
from ._verdicts import Verdict as Verdict
from ._verdicts import verdict as verdict

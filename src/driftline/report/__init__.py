"""Reports: a run of the monitor as one HTML page that opens offline, and as one figure."""

from driftline.report.figure import write_png
from driftline.report.histories import ReportError
from driftline.report.page import write_report

__all__ = ["ReportError", "write_png", "write_report"]

"""The page about trust names every doubt there is, and no other."""

import re
from pathlib import Path

from driftline.inference import DoubtCode

PAGE = Path(__file__).parent.parent / "docs" / "trust.md"


def test_every_doubt_has_a_row_with_a_remedy():
    rows = re.findall(r"^\| `(\w+)` \| (.+) \| (.+) \|$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert [code for code, *_ in rows] == [code.value for code in DoubtCode]
    assert all(len(means) > 10 and len(remedy) > 5 for _, means, remedy in rows)

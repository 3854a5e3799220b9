"""What a tracker file is made of: two tables, and nothing else, so that nothing in a foreign file is ever run."""

from __future__ import annotations

import sqlite3

from driftline.monitor._sqlite import TrackerError

__all__ = ["VERSION", "check_kind", "create", "is_empty"]

VERSION = 14
_APPLICATION = 0x64726674  # "drft", shown by file(1) and SQLite
_TABLES = {
    "parts": "CREATE TABLE parts (name TEXT PRIMARY KEY, content BLOB NOT NULL, digest TEXT NOT NULL)",
    "records": "CREATE TABLE records (place INTEGER PRIMARY KEY, record TEXT NOT NULL, digest TEXT NOT NULL)",
}
_KEYS = {"sqlite_autoindex_parts_1": "parts"}  # indexes that SQLite makes by itself, and their tables
_Entry = tuple[str, str, str, str | None]  # type, name, table and statement
_EXPECTED: set[_Entry] = {("table", name, name, statement) for name, statement in _TABLES.items()} | {
    ("index", name, table, None) for name, table in _KEYS.items()
}


def create(database: sqlite3.Connection) -> None:
    """Make an empty database a tracker file, inside a transaction."""
    for statement in _TABLES.values():
        database.execute(statement)
    database.execute(f"PRAGMA application_id = {_APPLICATION}")
    database.execute(f"PRAGMA user_version = {VERSION}")


def is_empty(database: sqlite3.Connection) -> bool:
    """Say whether there is nothing in the database, neither ours nor that of others."""
    return not _entries(database)


def check_kind(database: sqlite3.Connection, path: str) -> None:
    """Raise unless the database is empty, or a tracker file of this version whose schema is exactly ours."""
    (kind,) = database.execute("PRAGMA application_id").fetchone()
    (version,) = database.execute("PRAGMA user_version").fetchone()
    found = _entries(database)
    if not found and kind in (0, _APPLICATION):
        return
    if kind != _APPLICATION:
        raise TrackerError(f"{path}: a database, but not a driftline tracker file")
    if version != VERSION:
        remedy = (
            "begin another file, or go on with the driftline that wrote it" if version < VERSION else "update driftline"
        )
        raise TrackerError(f"{path}: written as version {version}, this driftline reads version {VERSION}: {remedy}")
    if found != _EXPECTED:
        raise TrackerError(f"{path}: {_difference(found)}; take a copy from before that, or begin another file")
    problem = database.execute("PRAGMA quick_check(1)").fetchone()
    if problem != ("ok",):
        raise TrackerError(f"{path}: damaged ({problem[0]})")


def _entries(database: sqlite3.Connection) -> set[_Entry]:
    return set(database.execute("SELECT type, name, tbl_name, sql FROM sqlite_master"))


def _difference(found: set[_Entry]) -> str:
    """Say in what a schema is not ours: what was added first, for that is what could do harm."""
    names = {(kind, name) for kind, name, *_ in found}
    ours = {(kind, name) for kind, name, *_ in _EXPECTED}
    if added := sorted(names - ours, key=str):  # a name may be anything in a damaged file
        listed = ", ".join(f"{kind} {name!r}" for kind, name in added[:3])
        more = f" and {len(added) - 3} more" if len(added) > 3 else ""
        return f"altered by others, it also holds the {listed}{more} (nothing of that was run)"
    if missing := sorted(ours - names):
        return f"damaged, it lacks the {', '.join(f'{kind} {name!r}' for kind, name in missing)}"
    changed = sorted({str(table) for _, _, table, _ in found - _EXPECTED})
    return f"altered by others, its table {' and '.join(map(repr, changed))} is defined anew"

"""Orders of an invented web shop: mixed columns, seasons, a break on a known day, and the true drift.

Columns are independent of each other on any day, so that the drift from the first week, KL(current‖original), is a sum
of closed forms. The weekday changes the number of orders and the share of express ones; the season slowly changes
amounts, goods and devices. On the day of the break, a new payment method appears and amounts rise, at once and for
good.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, timedelta

import numpy as np
import numpy.typing as npt
import pyarrow as pa

__all__ = ["Shop"]

Shares = Mapping[str, float]

_WEEKDAYS = np.array([0.90, 0.88, 0.92, 0.98, 1.12, 1.25, 0.95])  # orders, relative to an average day
_EXPRESS = np.array([0.26, 0.26, 0.27, 0.30, 0.36, 0.40, 0.25])  # share of express orders
_PAYMENTS = {"card": 0.62, "invoice": 0.24, "transfer": 0.12, "voucher": 0.007, "cash": 0.007, "cheque": 0.006}
_RARE = ("voucher", "cash", "cheque", "wallet")  # less than 1 % of the first week each, or unseen in it
_COUNTRIES = {"AT": 0.45, "DE": 0.33, "CH": 0.14, "IT": 0.08}
_SHAPE = 2.0  # shape of the gamma distribution of amounts


@dataclass(frozen=True)
class Shop:
    """A shop whose orders drift.

    Arguments:
        orders: number of orders in an average week.
        first: first day, a Monday.
        weeks: number of weeks.
        break_after: days from the first day to the day of the break.
        seed: random seed.

    >>> shop = Shop(orders=700, weeks=2)
    >>> week = shop.week(0)
    >>> 600 < week.num_rows < 800, week.column_names[:3]
    (True, ['ordered_at', 'amount', 'items'])
    >>> round(shop.drift(0), 2), round(shop.drift(25), 2)
    (0.0, 0.45)
    """

    orders: int = 5000
    first: date = date(2025, 1, 6)
    weeks: int = 26
    break_after: int = 114
    seed: int = 0

    @property
    def break_day(self) -> date:
        """Day on which wallets appeared and amounts rose."""
        return self.first + timedelta(days=self.break_after)

    @property
    def break_week(self) -> int:
        """Week of the break, counted from 0."""
        return self.break_after // 7

    def week(self, number: int) -> pa.Table:
        """Return the orders of a week, sorted by time."""
        rng = np.random.default_rng([self.seed, number])
        return pa.concat_tables([self._day(7 * number + k, rng) for k in range(7)])

    def drift(self, number: int) -> float:
        """Return KL(current‖original) of a week in nats, for columns as the monitor encodes them.

        The week of the break itself is a mixture, for which this does not hold.
        """
        now, then = 7 * number + 3, 3
        ratio = self._scale(now) / self._scale(then)
        amounts = _SHAPE * (ratio - 1.0 - math.log(ratio))
        parts = [(self._payment(now), self._payment(then)), (_device(now), _device(then)), (_goods(now), _goods(then))]
        return amounts + sum(_kl(_merged(a), _merged(b)) for a, b in parts)

    def _day(self, day: int, rng: np.random.Generator) -> pa.Table:
        weekday = day % 7
        n = int(rng.poisson(self.orders / 7 * _WEEKDAYS[weekday] * (1.0 + 0.1 * _season(day))))
        at = np.sort(rng.beta(2.5, 1.8, n)) * 86_400.0
        midnight = np.datetime64(self.first + timedelta(days=day), "s")
        age = np.clip(rng.normal(41.0, 12.0, n), 16, 95).round()
        guest = rng.random(n) < 0.25
        return pa.table(
            {
                "ordered_at": midnight + at.astype("timedelta64[s]"),
                "amount": np.round(rng.gamma(_SHAPE, self._scale(day), n) + 0.5, 2),
                "items": 1 + rng.poisson(1.4, n),
                "goods": _drawn(_goods(day), n, rng),
                "payment": _drawn(self._payment(day), n, rng),
                "device": _drawn(_device(day), n, rng),
                "country": _drawn(_COUNTRIES, n, rng),
                "age": pa.array(age, mask=guest),
                "minutes": np.round(np.exp(rng.normal(1.6, 1.0, n)), 1),
                "express": rng.random(n) < _EXPRESS[weekday],
            }
        )

    def _scale(self, day: int) -> float:
        return 30.0 * (1.0 + 0.06 * _season(day)) * (1.35 if day >= self.break_after else 1.0)

    def _payment(self, day: int) -> Shares:
        wallet = 0.18 if day >= self.break_after else 0.0
        return {**{name: share * (1.0 - wallet) for name, share in _PAYMENTS.items()}, "wallet": wallet}


def _season(day: int) -> float:
    """Return the season: 0 in the first week, 1 half a year later."""
    return 0.5 - 0.5 * math.cos(2.0 * math.pi * (day - 3) / 365.25)


def _goods(day: int) -> Shares:
    garden = 0.12 + 0.06 * _season(day)
    return {"garden": garden, "home": 0.5 - 0.5 * garden, "toys": 0.3 - 0.3 * garden, "books": 0.2 - 0.2 * garden}


def _device(day: int) -> Shares:
    mobile = 0.55 + 0.0002 * day
    return {"mobile": mobile, "desktop": 0.9 - mobile, "tablet": 0.1}


def _merged(shares: Shares) -> dict[str, float]:
    """Merge rare and unseen values into one, as the monitor does."""
    kept = {name: share for name, share in shares.items() if name not in _RARE}
    return {**kept, "other": sum(share for name, share in shares.items() if name in _RARE)}


def _kl(one: Shares, other: Shares) -> float:
    return sum(p * math.log(p / other[name]) for name, p in one.items() if p > 0.0)


def _drawn(shares: Shares, n: int, rng: np.random.Generator) -> npt.NDArray[np.str_]:
    return rng.choice(np.array(list(shares)), n, p=np.array(list(shares.values())))

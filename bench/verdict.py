"""Whether a row of two builds has moved, or only shows noise.

Each round measures both builds, one after the other.  Its ratio is above 1 if the new build is
worse: it takes longer, or does fewer things a second.  A row has moved if the median of the ratios
is beyond the limit, and three rounds in four agree on the direction.  One measurement of a busy
machine proves little, so a row that has moved is measured again.  It is reported only if the second
measurement, by itself, says the same.
"""
import re
import statistics

LIMIT_OF_COUNTS, LIMIT_OF_TIMES = 0.03, 0.05
COUNTS = ("instr", "kinstr", "bytes")
MORE_IS_BETTER = re.compile(r"/s$")

WORSE, SAME, BETTER = 1, 0, -1


def limit_of(unit):
    return LIMIT_OF_COUNTS if unit in COUNTS else LIMIT_OF_TIMES


def ratios(pairs, unit):
    """The ratios of rounds [(old, new)] for which there is one."""
    more = MORE_IS_BETTER.search(unit)
    found = []
    for old, new in pairs:
        if old == new:
            found.append(1.0)
        elif old > 0 and new > 0:
            found.append(old / new if more else new / old)
    return found


def direction(pairs, unit):
    """WORSE, SAME or BETTER, by one measurement."""
    found = ratios(pairs, unit)
    if not found:
        return SAME
    middle, limit = statistics.median(found), limit_of(unit)
    sign = WORSE if middle > 1 + limit else BETTER if middle < 1 / (1 + limit) else SAME
    agreeing = sum((ratio > 1) == (sign == WORSE) and ratio != 1 for ratio in found)
    return sign if 4 * agreeing >= 3 * len(found) else SAME


def change(pairs, unit):
    """How much the value itself has grown, in percent; the medians before and after."""
    before, after = (statistics.median(side) for side in zip(*pairs))
    found = ratios(pairs, unit)
    ratio = statistics.median(found) if found else 1.0
    if MORE_IS_BETTER.search(unit):
        ratio = 1 / ratio
    return 100 * (ratio - 1), before, after

#!/usr/bin/env python3
"""Reads a report in a format and prints the totals: formats.py tap|junit < report"""
import re
import sys
import xml.etree.ElementTree as xml


def read_tap(text):
    lines = text.split("\n")
    assert lines.pop(0) == "TAP version 13", "the version comes first"
    passed = failed = skipped = number = 0
    plan, in_block = None, False
    for line in lines:
        test = re.fullmatch(r"(not )?ok (\d+) - (.*?)( # SKIP .*)?", line)
        if in_block:
            assert line.startswith("  "), f"inside a block: {line!r}"
            in_block = line != "  ..."
        elif line == "  ---":
            in_block = True
        elif test:
            number += 1
            assert int(test[2]) == number, f"numbers in order: {line!r}"
            assert plan is None, "nothing after the plan"
            if test[4]:
                skipped += 1
            elif test[1]:
                failed += 1
            else:
                passed += 1
        elif line.startswith("1.."):
            plan = int(line[3:])
        else:
            assert line == "" or line.startswith("#"), f"neither test nor comment: {line!r}"
    assert plan == number and not in_block, "the plan is right"
    return passed, failed, skipped


def read_junit(text):
    root = xml.fromstring(text)
    assert root.tag == "testsuites"
    cases = root.findall("testsuite/testcase")
    failed = len(root.findall("testsuite/testcase/failure"))
    skipped = len(root.findall("testsuite/testcase/skipped"))
    assert int(root.get("tests")) == len(cases) and int(root.get("failures")) == failed
    for suite in root:
        assert int(suite.get("tests")) == len(suite.findall("testcase"))
        assert int(suite.get("failures")) == len(suite.findall("testcase/failure"))
    return len(cases) - failed - skipped, failed, skipped


data = sys.stdin.buffer.read()
if sys.argv[1] == "tap":
    sums = read_tap(data.decode("utf-8", "surrogateescape"))
else:
    sums = read_junit(data)
print("%d passed, %d failed, %d pending" % sums)

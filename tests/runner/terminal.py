#!/usr/bin/env python3
"""Runs a command with a terminal as its output, and prints that output: terminal.py COMMAND..."""
import os
import subprocess
import sys

ours, its = os.openpty()
process = subprocess.Popen(sys.argv[1:], stdin=subprocess.DEVNULL, stdout=its, stderr=its)
os.close(its)
output = b""
while True:
    try:
        chunk = os.read(ours, 65536)
    except OSError:  # the other end is closed
        break
    if not chunk:
        break
    output += chunk
status = process.wait()
sys.stdout.buffer.write(output)
sys.exit(status)

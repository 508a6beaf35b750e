"""Writes a CSV with the columns of the Azure LLM inference traces of 2024: python3 azure-2024-shaped.py ROWS > FILE.

Poisson arrivals over about a week, uniform lengths: a file to measure readers with, not a workload.
"""

import random
import sys
from datetime import datetime, timedelta, timezone

rows = int(sys.argv[1])
random.seed(1)
at = datetime(2024, 5, 10, tzinfo=timezone.utc)
gap_us = 7 * 86_400e6 / rows
print("TIMESTAMP,ContextTokens,GeneratedTokens")
for _ in range(rows):
    at += timedelta(microseconds=int(random.expovariate(1 / gap_us)))
    stamp = at.strftime("%Y-%m-%d %H:%M:%S.%f")
    print(f"{stamp}+00:00,{random.randint(1, 8000)},{random.randint(1, 1000)}")

"""Reads a Perfetto trace by Perfetto's own definitions: counts what is in it, and fails at a field they do not know.

    pip install perfetto
    vruntime run web.json --out out && python3 docs/perfetto_check.py out/trace.perfetto-trace
"""

import collections
import sys

from google.protobuf import unknown_fields
from perfetto.protos.perfetto.trace import perfetto_trace_pb2

trace = perfetto_trace_pb2.Trace()
with open(sys.argv[1], "rb") as file:
    trace.ParseFromString(file.read())
known, unknown = collections.Counter(), collections.Counter()


def walk(message, path):
    for field in unknown_fields.UnknownFieldSet(message):
        unknown[f"{path} {field.field_number}"] += 1
    for field, value in message.ListFields():
        if field.message_type is not None:
            for part in value if field.is_repeated else [value]:
                known[f"{path}.{field.name}"] += 1
                walk(part, f"{path}.{field.name}")


walk(trace, "trace")
for path, count in sorted(known.items()):
    print(f"{count:9} {path}")
missing = trace.FindInitializationErrors()
print(f"unknown: {dict(unknown)}, missing: {missing}")
sys.exit(bool(unknown or missing))

"""Reads metrics over HTTP with the parser of the Prometheus project, and prints [name, labels, value] of each as one JSON line."""

import json
import sys
import urllib.request

from prometheus_client.parser import text_string_to_metric_families

with urllib.request.urlopen(sys.argv[1], timeout=5) as answer:
    text = answer.read().decode()
samples = [
    [sample.name, sample.labels, sample.value]
    for family in text_string_to_metric_families(text)
    for sample in family.samples
]
print(json.dumps(samples))

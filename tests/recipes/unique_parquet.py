"""From a Parquet file to a unique Parquet file, with pictures. Each ``# %%`` begins a cell.

    pip install '.[parquet,plot]'
    python tests/recipes/unique_parquet.py

Set PAGES and TEXT to your file and its column. If the file does not exist, a sample is made.
For a file that is larger than memory use ``streamfilter filter`` and ``streamfilter pairs -o``.
"""

# %% The file, and the column with the texts. Rows without a text are left out.
import subprocess
import sys
from itertools import islice
from pathlib import Path

import matplotlib.pyplot as plt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from streamfilter import Deduplicator, unique
from streamfilter.stories.stream import stories

PAGES, TEXT, THRESHOLD = "pages.parquet", "text", 0.8

if not Path(PAGES).exists():
    sample = [{"id": each.id, "kind": each.kind, "text": each.text}
              for each in islice(stories(1), 1_500)]  # fmt: skip
    pq.write_table(pa.Table.from_pylist(sample), PAGES)
pages = pq.read_table(PAGES, filters=~pc.field(TEXT).is_null())

# %% The first row of each group of near-duplicates, with all of its columns, in the file's order.
kept = list(unique(pages, text=TEXT, threshold=THRESHOLD))
pq.write_table(pa.Table.from_pylist(kept, schema=pages.schema), "unique.parquet")
print(f"{len(pages):,} rows, {len(kept):,} of them unique: unique.parquet")

# %% How similar are the rows to each other? A lower threshold shows what is not withheld.
texts = pages[TEXT].to_pylist()
with Deduplicator(threshold=0.5) as all_pages:
    all_pages.add_many(enumerate(texts))  # the ids are numbers of rows
    pairs = list(all_pages.all_duplicates())

figure, axes = plt.subplots(figsize=(7.2, 4), layout="constrained")
axes.hist([pair.similarity for pair in pairs], bins=25, range=(0.5, 1), log=True)
axes.axvline(THRESHOLD, color="black", dashes=(5, 4), label=f"threshold {THRESHOLD:g}")
axes.set(title=PAGES, xlabel="Jaccard similarity", ylabel="pairs (logarithmic)")
axes.legend()
figure.savefig("similarities.png")
print(f"{len(pairs):,} pairs from 0.5 on: similarities.png")

# %% Is the threshold right? Read the pairs next to it. It belongs in a gap of the histogram.
for pair in sorted(pairs, key=lambda pair: abs(pair.similarity - THRESHOLD))[:3]:
    print(f"\n{pair.similarity:.3f}")
    for name in (pair.other, pair.id):
        print(f"  row {name}: {' '.join(texts[name].split()):.200}")

# %% Does the search find the duplicates? The S-curve, measured against all pairs by brute force.
evaluate = ["evaluate", PAGES, "--id", "none", "--text", f"/{TEXT}", "--sample", "1500",
            "--threshold", str(THRESHOLD), "--plot", "s-curve.png"]  # fmt: skip
command = [sys.executable, "-m", "streamfilter", *evaluate]
print(subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout)

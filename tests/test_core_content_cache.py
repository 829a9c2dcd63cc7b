"""A cache of the core counts an item once when it replaces another."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

import guided

NATIVE = Path(guided.__file__).parent / "automaton" / "native"
COMPILER = shutil.which("c++")
REPLACED_ITEMS = """
#include "base/content_cache.hpp"

struct Item {
  size_t count;
  size_t size() const { return count; }
};

int main() {
  guided::ContentCache<Item> cache;
  guided::Digest small{1, 2}, large{3, 4};
  cache.insert(small, std::make_shared<Item>(Item{1}));
  for (int i = 0; i < 20; ++i) cache.insert(large, std::make_shared<Item>(Item{50000}));
  return cache.find(small) && cache.find(large) ? 0 : 1;
}
"""


@pytest.mark.skipif(COMPILER is None, reason="needs a C++ compiler")
def test_a_cache_counts_an_item_that_replaces_another_once(tmp_path: Path) -> None:
    source, program = tmp_path / "replaced.cpp", tmp_path / "replaced"
    source.write_text(REPLACED_ITEMS)
    command = [str(COMPILER), "-std=c++20", f"-I{NATIVE}", str(source), "-o", str(program)]
    subprocess.run(command, check=True, timeout=120)
    assert subprocess.run([program], check=False, timeout=60).returncode == 0

#!/usr/bin/env bash
# Has Spin try every order of the steps of lock.pml, with the rules as they are: no check may fail. Then with each fault:
# one must. It needs spin and a C compiler (Debian: spin, gcc).
set -euo pipefail
model=$(cd "$(dirname "$0")" && pwd)/lock.pml
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

check() { # options of Spin: prints what it found
  spin "$@" -a "$model" >/dev/null
  gcc -O2 -DSAFETY -DCOLLAPSE -DMEMLIM=2000 -w -o pan pan.c
  ./pan -m100000 -E
}

check >out
grep -E 'errors:|states, stored|elapsed' out
grep -q 'errors: 0' out && ! grep -qE 'max search depth too small|out of memory' out ||
  { cat out; echo "the model fails, or was not searched to its end"; exit 1; }
for fault in $(grep -oE '^#ifn?def [A-Z_]+' "$model" | cut -d' ' -f2); do
  check "-D$fault" >out
  grep -q 'errors: 1' out || { cat out; echo "$fault: nothing fails"; exit 1; }
  echo "$fault: $(grep -o 'assertion violated.*' out | head -1)"
done

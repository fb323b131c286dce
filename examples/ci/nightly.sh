#!/bin/sh
# A night on one machine, without any service. From cron, which mails what is printed:
#   MAILTO=team@example.org
#   17 1 * * *  /srv/splitbrain/nightly.sh
# or from systemd: splitbrain-nightly.service and splitbrain-nightly.timer.
#
# The folder has nightly.toml, known.toml and a virtual environment .venv with splitbrain. It prints nothing, and exits with
# 0, where there is nothing new. A night that was killed, by a restart of the machine say, is continued by the next one.
set -u
cd "$(dirname "$0")" || exit 255
PATH=$PWD/.venv/bin:$PATH

exec 9> nightly.lock
flock -n 9 || { echo "the last night has not ended: this one is left out"; exit 255; }

rm -f summary.md
nice -n 10 splitbrain nightly nightly.toml --resume --junit junit.xml --summary summary.md > nightly.log 2>&1
code=$?
ln -sfn "$(ls -d store/nights/*/ | tail -n 1)night.html" latest.html

if [ "$code" -ne 0 ]; then
    if [ -f summary.md ]; then cat summary.md; else tail -n 50 nightly.log; fi
fi
exit "$code"

#!/bin/sh
# The program of one node of RabbitMQ. epmd, which tells peers the port of the broker, is a child of this process, and
# this process becomes the broker's VM. A kill or a stop of the node's processes reaches both.
#
# It is laid beside the node's data. Its arguments: the broker's program, the release that the test is about, then all
# releases that there are to choose.
set -eu

program=$1 wanted=$2
shift 2
found=$(ls "${program%/bin/*}/lib" 2>/dev/null | sed -n 's/^rabbitmq_server-//p' | head -n 1)
case $found in
"$wanted".*) ;;
*)
    help="Install that (Debian and Ubuntu: rabbitmq-server)"
    for release; do
        case $found in "$release".*) help="$help, or give --settings release=$release" ;; esac
    done
    echo "splitbrain: the test is about RabbitMQ $wanted, but RabbitMQ ${found:-of no release} is installed here. $help." >&2
    exit 1
    ;;
esac

epmd &
until epmd -names >/dev/null 2>&1; do
    if ! kill -0 $! 2>/dev/null; then
        echo "splitbrain: epmd ended before the broker began." >&2
        exit 1
    fi
    sleep 0.05
done
exec "$program"

#!/bin/sh
# The program of one node of RabbitMQ. epmd, which tells peers the port of a broker, is a child of this process; and this
# process becomes the broker's VM. So whoever kills or stops the node's processes reaches both, and none outlives the other.
#
# It is laid beside the node's data, and told which release (4.0) the test is about.
set -eu

found=$(ls /usr/lib/rabbitmq/lib 2>/dev/null | sed -n 's/^rabbitmq_server-//p' | head -n 1)
case $found in
"$1" | "$1".*) ;;
*)
    echo "splitbrain: the test is about RabbitMQ $1, but ${found:-none} is installed here." \
        "Choose another one (--settings release=NAME), or install that one (Debian and Ubuntu: rabbitmq-server)." >&2
    exit 1
    ;;
esac

epmd &
until epmd -names >/dev/null 2>&1; do
    kill -0 $! 2>/dev/null || { echo "splitbrain: epmd ended." >&2; exit 1; }
    sleep 0.05
done
exec /usr/lib/rabbitmq/bin/rabbitmq-server

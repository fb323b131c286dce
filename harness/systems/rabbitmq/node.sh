#!/bin/sh
# The program of one node of RabbitMQ. epmd, which tells peers the port of the broker, is a child of this process, and
# this process becomes the broker's VM. A kill or a stop of the node's processes reaches both.
#
# It is laid beside the node's data. Its arguments: the broker's program, the release that the test is about, then all
# releases that there are to choose. SPLITBRAIN_SETS lists the variables for brokers that the test has set.
set -eu

program=$1 wanted=$2
shift 2
# The program is a link into the folder of its release. Folders of other releases may be left from an upgrade.
found=$(readlink -f "$program" | sed -n 's|.*/rabbitmq_server-\([^/]*\)/.*|\1|p')
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

# What this machine has set for other brokers would change ports, names and files of the node.
for name in $(env | sed -n 's/^\(RABBITMQ_[A-Za-z0-9_]*\)=.*/\1/p; s/^\(ERL_[A-Za-z0-9_]*\)=.*/\1/p'); do
    case " $SPLITBRAIN_SETS " in *" $name "*) ;; *) unset "$name" ;; esac
done

# Files of the configuration are named from the directory of the data. A dump of a crash goes where it would have gone.
export ERL_CRASH_DUMP="$PWD/erl_crash.dump"
cd "$HOME"

port=${ERL_EPMD_PORT:-4369}
# Without a limit epmd waits for good for an answer of what is no epmd. That of the node's life before may still end.
tries=0
problem="an epmd that is not this node's answers on port $port"
while :; do
    answer=0
    timeout 5 epmd -names >/dev/null 2>&1 || answer=$?
    case $answer in
    0) tries=$((tries + 1)) ;;
    124) tries=20 problem="something that is no epmd holds port $port and does not answer" ;;
    *) break ;;
    esac
    if [ "$tries" = 20 ]; then
        echo "splitbrain: $problem. End it: the node needs that port." >&2
        exit 1
    fi
    sleep 0.05
done
epmd &
until timeout 5 epmd -names >/dev/null 2>&1; do
    if ! kill -0 $! 2>/dev/null; then
        echo "splitbrain: epmd ended before the broker began. Is it installed, and port $port free?" >&2
        exit 1
    fi
    sleep 0.05
done
exec "$program"

%% Answers, inside a broker's VM, what AMQP has no answer for, on a connection that stays open: a call of rabbitmqctl boots
%% a VM of its own, which takes seconds. It only reads what this node itself holds, so it answers without the others.
%%
%% Each line that comes is answered with one line of JSON: this node, the nodes that it is connected to, the partitions that
%% it has noticed, the store of its metadata, and the leader, or home, of each queue as this node knows it.
-module(splitbrain_probe).
-export([start/2]).

start(Host, Port) ->
    {ok, Address} = inet:parse_address(Host),
    spawn(fun() -> listen(Address, Port) end).

listen(Address, Port) ->
    Options = [binary, {packet, line}, {active, false}, {reuseaddr, true}, {ip, Address}],
    {ok, Listener} = gen_tcp:listen(Port, Options),
    accept(Listener).

accept(Listener) ->
    {ok, Socket} = gen_tcp:accept(Listener),
    Pid = spawn(fun() -> receive go -> serve(Socket) end end),
    ok = gen_tcp:controlling_process(Socket, Pid),
    Pid ! go,
    accept(Listener).

serve(Socket) ->
    case gen_tcp:recv(Socket, 0) of
        {ok, _} ->
            ok = gen_tcp:send(Socket, [status(), "\n"]),
            serve(Socket);
        _ ->
            gen_tcp:close(Socket)
    end.

status() ->
    object([{"node", atom(node())},
            {"connected", list([atom(N) || N <- lists:sort([node() | nodes()])])},
            {"partitions", list([atom(N) || N <- partitions()])},
            {"store", string(store())},
            {"metadata_leader", leader(catch ra_leaderboard:lookup_leader(rabbitmq_metadata))},
            {"queues", object(queues())}]).

partitions() ->
    case catch rabbit_node_monitor:partitions() of
        Found when is_list(Found) -> [case P of {N, _} -> N; N -> N end || P <- Found, is_atom(P) orelse is_tuple(P)];
        _ -> []
    end.

store() ->
    case catch rabbit_khepri:is_enabled() of
        true -> "khepri";
        _ -> "mnesia"
    end.

queues() ->
    case catch rabbit_amqqueue:list() of
        Found when is_list(Found) -> [queue(Q) || Q <- Found];
        _ -> []
    end.

queue(Q) ->
    {resource, _, queue, Name} = amqqueue:get_name(Q),
    Place = case amqqueue:get_pid(Q) of
        {Id, _} = Pid ->
            case catch ra_leaderboard:lookup_leader(Id) of
                {_, _} = Led -> Led;
                _ -> Pid
            end;
        Pid when is_pid(Pid) -> {Name, node(Pid)};
        _ -> undefined
    end,
    {Name, leader(Place)}.

leader({_, Node}) when is_atom(Node) -> atom(Node);
leader(_) -> "null".

object(Pairs) -> ["{", lists:join(",", [[string(K), ":", V] || {K, V} <- Pairs]), "}"].
list(Items) -> ["[", lists:join(",", Items), "]"].
atom(Name) -> string(atom_to_list(Name)).
string(Text) -> [$", [escape(C) || C <- unicode:characters_to_list(Text)], $"].
escape(C) when C < 32; C > 126 -> io_lib:format("\\u~4.16.0b", [C]);
escape($") -> "\\\"";
escape($\\) -> "\\\\";
escape(C) -> C.

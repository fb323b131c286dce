%% Answers, inside a broker's VM, what AMQP has no answer for, on a connection that stays open: a call of rabbitmqctl boots
%% a VM of its own, which takes seconds. But for a migration it only reads what this node itself holds, so it answers without
%% the others.
%%
%% Each line that comes is answered with one line of JSON:
%%   status                  this node, the nodes that it is connected to, the partitions that it has noticed, the store of
%%                           its metadata with its leader and members, and the leader, or home, and the members of each
%%                           queue, as this node knows them
%%   exchanges PREFIX HOW    the rest of the name of each exchange that begins so
%%   queue NAME HOW          the argument x-max-length of a queue, in a list; nothing if there is no such queue
%%   stream NAME             the offset behind the last confirmed message of the replica on this node, in a list; nothing if
%%                           there is none
%%   migrate                 has the cluster move its metadata to Khepri, by its feature flag; the reason in a list if that
%%                           was refused, an empty list once it is done. It goes on when the connection ends
%% HOW is "local", what this node holds, or "consistent": with Khepri, from its leader, which asks a majority. Mnesia has
%% nothing of that kind: its nodes answer from their own copy.
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
        {ok, Line} ->
            ok = gen_tcp:send(Socket, [answer(string:lexemes(Line, " \r\n")), "\n"]),
            serve(Socket);
        _ ->
            gen_tcp:close(Socket)
    end.

answer([<<"status">>]) -> status();
answer([<<"exchanges">>, Prefix, How]) ->
    Size = byte_size(Prefix),
    list([string(Rest) || <<P:Size/binary, Rest/binary>> <- exchanges(How), P =:= Prefix]);
answer([<<"queue">>, Name, How]) -> carried(found(How, rabbit_misc:r(<<"/">>, queue, Name)));
answer([<<"migrate">>]) -> moved(catch rabbit_feature_flags:enable(khepri_db));
answer([<<"stream">>, Name]) -> confirmed(rabbit_misc:r(<<"/">>, queue, Name)).

%% A replica counts as osiris_writer while it is the leader, else as osiris_replica. What is left of the other is older.
confirmed(Name) ->
    Counters = osiris_counters:overview(),
    Kinds = [maps:get({Kind, Name}, Counters, #{}) || Kind <- [osiris_writer, osiris_replica]],
    case [Offset || #{committed_offset := Offset} <- Kinds] of
        [] -> "[]";
        Offsets -> list([integer_to_list(lists:max(Offsets) + 1)])
    end.

moved(ok) -> "[]";
moved(Refused) -> list([string(io_lib:format("~0p", [Refused]))]).

exchanges(How) ->
    case store() =:= "khepri" andalso How =:= <<"consistent">> of
        true ->
            Path = rabbit_db_exchange:khepri_exchange_path(<<"/">>, {if_name_matches, any, undefined}),
            {ok, Found} = khepri:get_many(rabbit_khepri:get_store_id(), Path, #{favor => consistency}),
            [lists:last(P) || P <- maps:keys(Found)];
        false ->
            [N || {resource, <<"/">>, exchange, N} <- rabbit_exchange:list_names()]
    end.

found(How, Name = {resource, VHost, queue, Queue}) ->
    case store() =:= "khepri" andalso How =:= <<"consistent">> of
        true ->
            Path = rabbit_db_queue:khepri_queue_path(VHost, Queue),
            case khepri:get(rabbit_khepri:get_store_id(), Path, #{favor => consistency}) of
                {ok, Q} -> {ok, Q};
                {error, {khepri, node_not_found, _}} -> {error, not_found}
            end;
        false ->
            rabbit_amqqueue:lookup(Name)
    end.

carried({ok, Q}) ->
    case lists:keyfind(<<"x-max-length">>, 1, amqqueue:get_arguments(Q)) of
        {_, _, Value} -> list([integer_to_list(Value)]);
        false -> "[]"
    end;
carried({error, not_found}) -> "[]".

status() ->
    object([{"node", atom(node())},
            {"connected", list([atom(N) || N <- lists:sort([node() | nodes()])])},
            {"partitions", list([atom(N) || N <- partitions()])},
            {"store", string(store())},
            {"metadata_leader", leader(catch ra_leaderboard:lookup_leader(rabbitmq_metadata))},
            {"metadata_members", list([atom(N) || {_, N} <- members(rabbitmq_metadata)])},
            {"members", object([{Name, list([atom(N) || N <- Nodes])} || {Name, Nodes} <- replicas()])},
            {"queues", object(queues())}]).

members(Name) ->
    case catch ra_leaderboard:lookup_members(Name) of
        Found when is_list(Found) -> Found;
        _ -> []
    end.

replicas() ->
    case catch rabbit_amqqueue:list() of
        Found when is_list(Found) -> [{element(4, amqqueue:get_name(Q)), nodes_of(Q)} || Q <- Found];
        _ -> []
    end.

nodes_of(Q) ->
    case {catch amqqueue:get_type_state(Q), catch amqqueue:get_pid(Q)} of
        {#{nodes := Nodes}, _} when is_list(Nodes) -> Nodes;
        {_, Pid} when is_pid(Pid) -> [node(Pid)];
        _ -> []
    end.

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

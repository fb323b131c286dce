%% Answers, inside a broker's VM, what AMQP has no answer for, on a connection that stays open: a call of rabbitmqctl boots
%% a VM of its own, which takes seconds. But for `make`, `remove` and `migrate` it only reads, and "local" reads are answered
%% without the other nodes.
%%
%% Each line that comes is answered with one line of JSON:
%%   status                  this node, the nodes that it is connected to, the partitions that it has noticed, the store of
%%                           its metadata with its leader and members, and the leader, or home, and the members of each
%%                           queue, as this node knows them
%%   exchanges PREFIX HOW    the rest of the name of each exchange that begins so
%%   queue NAME HOW          the argument x-max-length of a queue, in a list; nothing if there is no such queue
%%   stream NAME             the offset behind the last confirmed message of the replica on this node, in a list; nothing if
%%                           there is none
%%   entities HOW            all virtual hosts, users, permissions, policies, exchanges, queues and bindings, at one moment
%%   make KIND NAMES         makes a virtual host, which the clients' user may use, a user, a permission or a policy: an empty
%%                           list once it is there, or was; "refused" or "unknown" and the reason in a list if not
%%   remove KIND NAMES       the same of removing one
%%   register KEY HOW        the value of a global parameter, in a list; nothing if it was never set. Values are words
%%   put KEY VALUE           sets it; as `make`
%%   create KEY VALUE        the same, if it was never set; "unchanged" in a list if it was
%%   swap KEY OLD NEW        the same, if it has the old value
%%   migrate                 has the cluster move its metadata to Khepri, by its feature flag; the reason in a list if that
%%                           was refused, an empty list once it is done. It goes on when the connection ends
%% HOW is "local", what this node holds, or "consistent": with Khepri, from its leader, which asks a majority. Mnesia has
%% nothing of that kind: its nodes answer from their own copy, a parameter in a transaction.
%%
%% Besides, it starts virtual hosts that the broker missed (`start_missed`).
-module(splitbrain_probe).
-export([start/2, start_missed/0]).
-define(USER, <<"splitbrain">>).
-define(LOOKS_EACH_MS, 200).

start(Host, Port) ->
    {ok, Address} = inet:parse_address(Host),
    spawn(fun start_missed/0),
    spawn(fun() -> listen(Address, Port) end).

%% Starts, once the broker runs, each virtual host that has never run on this node. The first node adds a virtual host and
%% starts it on the nodes that run then. One that joins at that moment has read the list before, and is not among those:
%% it refuses all clients for good. RabbitMQ looks for such hosts by itself since pull request 11363 of
%% rabbitmq-server (4.0, and late releases of 3.13). One that ran here before and runs no more has failed, and stays as it
%% is: that is for a test to find.
start_missed() ->
    case catch rabbit:is_running() of
        true -> [missed(VHost) || VHost <- rabbit_vhost:list_names(), never_ran(VHost)];
        _ -> timer:sleep(?LOOKS_EACH_MS), start_missed()
    end.

never_ran(VHost) ->
    not filelib:is_dir(rabbit_vhost:msg_store_dir_path(VHost)) andalso not rabbit_vhost_sup_sup:is_vhost_alive(VHost).

missed(VHost) ->
    Result = rabbit_vhost_sup_sup:start_vhost(VHost),
    io:format("splitbrain: this node joined while the virtual host ~ts was made, and missed it: started now, ~0p~n",
              [VHost, Result]).

listen(Address, Port) ->
    Options = [binary, {packet, line}, {active, false}, {reuseaddr, true}, {ip, Address}],
    case gen_tcp:listen(Port, Options) of
        {ok, Listener} ->
            accept(Listener);
        {error, Reason} ->
            io:format(standard_error,
                      "splitbrain: the node cannot be asked what it does, on port ~b of ~s: ~p. "
                      "End what uses that port.~n", [Port, inet:ntoa(Address), Reason]),
            halt(1)
    end.

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
answer([<<"entities">>, How]) -> list([list(E) || R <- entities(How), E <- entity(R)]);
answer([<<"make">> | What]) -> changed(catch make(What));
answer([<<"remove">> | What]) -> changed(catch remove(What));
answer([<<"register">>, Key, How]) -> list([string(Value) || Value <- value(How, parameter(Key))]);
answer([<<"put">>, Key, Value]) -> changed(catch rabbit_runtime_parameters:set_global(parameter(Key), Value, ?USER));
answer([<<"create">>, Key, Value]) -> swapped(catch swap(parameter(Key), [], Value));
answer([<<"swap">>, Key, Old, New]) -> swapped(catch swap(parameter(Key), [Old], New));
answer([<<"migrate">>]) -> moved(catch rabbit_feature_flags:enable(khepri_db));
answer([<<"stream">>, Name]) -> confirmed(rabbit_misc:r(<<"/">>, queue, Name)).

%% A replica counts as osiris_writer while it is the leader, else as osiris_replica. What is left of the other is older.
%% All counters begin as 0, which would mean a confirmed message: the first file is counted, and 4.0 sets the epoch last.
confirmed(Name) ->
    Counters = osiris_counters:overview(),
    Kinds = [maps:get({Kind, Name}, Counters, #{}) || Kind <- [osiris_writer, osiris_replica]],
    Started = [Kind || #{segments := Segments} = Kind <- Kinds, Segments > 0, maps:get(epoch, Kind, 1) > 0],
    case [min(Confirmed, Written) || #{committed_offset := Confirmed, offset := Written} <- Started] of
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

parameter(Key) -> binary_to_atom(<<"register-", Key/binary>>, utf8).

value(<<"consistent">>, Name) ->
    case store() of
        "khepri" ->
            Path = rabbit_db_rtparams:khepri_global_rp_path(Name),
            case khepri:get(rabbit_khepri:get_store_id(), Path, #{favor => consistency}) of
                {ok, {runtime_parameters, _, Value}} -> [Value];
                {error, {khepri, node_not_found, _}} -> []
            end;
        "mnesia" ->
            {atomic, Found} = mnesia:transaction(fun() -> mnesia:read(rabbit_runtime_parameters, Name, read) end),
            [Value || {runtime_parameters, _, Value} <- Found]
    end;
value(<<"local">>, Name) ->
    case rabbit_runtime_parameters:value_global(Name) of
        not_found -> [];
        Value -> [Value]
    end.

%% Changes a parameter if it has these values: none, or one.
swap(Name, Old, New) ->
    Record = {runtime_parameters, Name, New},
    case {store(), Old} of
        {"khepri", []} ->
            rabbit_khepri:create(rabbit_db_rtparams:khepri_global_rp_path(Name), Record);
        {"khepri", [Value]} ->
            Path = rabbit_db_rtparams:khepri_global_rp_path(Name),
            rabbit_khepri:cas(Path, {runtime_parameters, Name, Value}, Record);
        {"mnesia", _} ->
            mnesia:transaction(fun() ->
                case [Value || {_, _, Value} <- mnesia:read(rabbit_runtime_parameters, Name, write)] of
                    Old -> mnesia:write(rabbit_runtime_parameters, Record, write);
                    _ -> unchanged
                end
            end)
    end.

swapped({atomic, ok}) -> "[]";
swapped({atomic, unchanged}) -> list([string("unchanged")]);
swapped({error, {khepri, mismatching_node, _}}) -> list([string("unchanged")]);
swapped({error, {khepri, node_not_found, _}}) -> list([string("unchanged")]);
swapped(Result) -> changed(Result).

%% Records of the store. Mnesia: one transaction that has locks on all tables. Khepri: one query of the whole tree.
entities(How) ->
    case store() of
        "khepri" ->
            Favor = case How of <<"consistent">> -> consistency; _ -> low_latency end,
            {ok, Found} = khepri:get_many(rabbit_khepri:get_store_id(), [{if_path_matches, any, undefined}], #{favor => Favor}),
            maps:values(Found);
        "mnesia" ->
            Tables = [rabbit_vhost, rabbit_user, rabbit_user_permission, rabbit_runtime_parameters,
                      rabbit_durable_exchange, rabbit_durable_queue, rabbit_queue, rabbit_durable_route],
            Read = fun(T) -> [{T, R} || R <- mnesia:match_object(T, mnesia:table_info(T, wild_pattern), read)] end,
            {atomic, Found} = mnesia:transaction(fun() -> [Read(T) || T <- Tables] end),
            [R || {T, R} <- lists:append(Found), T =/= rabbit_queue orelse not amqqueue:is_durable(R)]
    end.

entity({user_permission, {user_vhost, User, VHost}, _}) -> [[string("permission"), string(VHost), string(User)]];
entity({runtime_parameters, {VHost, <<"policy">>, Name}, _}) -> [[string("policy"), string(VHost), string(Name)]];
entity({route, Binding, _}) -> entity(Binding);
entity({binding, {resource, VHost, _, Source}, Key, {resource, _, Kind, End}, Arguments}) ->
    Numbers = [integer_to_list(N) || {<<"number">>, _, N} <- Arguments],
    [[string("binding"), string(VHost), string(Source), atom(Kind), string(End), string(Key) | Numbers]];
entity(Bindings) when is_map(Bindings) -> lists:append([entity(B) || B <- sets:to_list(Bindings)]);
entity(R) when element(1, R) =:= vhost -> [[string("vhost"), string(vhost:get_name(R))]];
entity(R) when element(1, R) =:= internal_user -> [[string("user"), string(internal_user:get_username(R))]];
entity(R) when element(1, R) =:= exchange ->
    {resource, VHost, _, Name} = element(2, R),
    Passing = case element(5, R) of true -> ["true"]; false -> [] end,
    [[string("exchange"), string(VHost), string(Name), atom(element(3, R)) | Passing]];
entity(R) when element(1, R) =:= amqqueue ->
    {resource, VHost, _, Name} = amqqueue:get_name(R),
    Owned = [string(Owner) || {<<"owner">>, _, Owner} <- amqqueue:get_arguments(R)],
    Kind = case Owned of [] -> "queue"; _ -> "exclusive" end,
    [[string(Kind), string(VHost), string(Name) | Owned]];
entity(_) -> [].

make([<<"vhost">>, VHost]) ->
    ok = rabbit_vhost:add(VHost, ?USER),
    rabbit_auth_backend_internal:set_permissions(?USER, VHost, <<".*">>, <<".*">>, <<".*">>, ?USER);
make([<<"user">>, User]) ->
    rabbit_auth_backend_internal:add_user(User, <<"secret">>, ?USER);
make([<<"permission">>, VHost, User]) ->
    rabbit_auth_backend_internal:set_permissions(User, VHost, <<"">>, <<"">>, <<".*">>, ?USER);
make([<<"policy">>, VHost, Name]) ->
    rabbit_policy:set(VHost, Name, <<"^", Name/binary>>, [{<<"max-length">>, 10}], 0, <<"queues">>, ?USER).

remove([<<"user">>, User]) -> rabbit_auth_backend_internal:delete_user(User, ?USER);
remove([<<"permission">>, VHost, User]) -> rabbit_auth_backend_internal:clear_permissions(User, VHost, ?USER);
remove([<<"policy">>, VHost, Name]) -> rabbit_policy:delete(VHost, Name, ?USER).

%% What the functions above return, or throw, before anything is done: it is as it was asked to be, or cannot be.
changed(ok) -> "[]";
changed({error, {user_already_exists, _}}) -> "[]";
changed({error_string, "Parameter does not exist"}) -> "[]";
changed(Why = {error, {no_such_user, _}}) -> refused("refused", Why);
changed(Why = {error, {no_such_vhost, _}}) -> refused("refused", Why);
changed(Why) -> refused("unknown", Why).

refused(Word, Why) -> list([string(Word), string(io_lib:format("~0p", [Why]))]).

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
        Found when is_list(Found) -> [{named(amqqueue:get_name(Q)), nodes_of(Q)} || Q <- Found];
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
    {named(amqqueue:get_name(Q)), leader(Place)}.

named({resource, <<"/">>, queue, Name}) -> Name;
named({resource, VHost, queue, Name}) -> <<VHost/binary, "/", Name/binary>>.

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

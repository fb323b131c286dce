%% Carries out steps of conformance cases on rabbit_fifo of RabbitMQ 4.0.5, and writes down what each gives, in the
%% notation of cases (beside_rabbitmq.py). Positions in records are those of that version. The process dictionary holds
%% what the step has given so far, the log, and the processes by name.
-module(rabbit_fifo_driver).

-export([main/1, size/1]).

-define(CONSUMERS, 10).
-define(DLX, 12).

main([In, Out]) ->
    logger:set_primary_config(level, none),
    {ok, Content} = file:read_file(In),
    {ok, Cases} = thoas:decode(Content),
    ok = file:write_file(Out, thoas:encode([run(Case) || Case <- Cases])),
    init:stop().

%% Of a message body: this module is the protocol of all messages.
size(Body) -> {0, byte_size(Body)}.

run(#{<<"config">> := Config, <<"consumers">> := Consumers, <<"steps">> := Steps}) ->
    erase(),
    put(keys, #{}),
    put(log, #{}),
    put(consumers, Consumers),
    steps(Steps, rabbit_fifo:init(config(Config)), []).

steps([], _, Seen) ->
    lists:reverse(Seen);
steps([Step | Steps], State0, Seen) ->
    [put(Key, []) || Key <- [dead_letters, dlx_deliveries, sends, cancelled, monitors, activity]],
    put(deliveries, #{}),
    put(dlx_confirmed, 0),
    put(answer, #{}),
    try step(Step, State0) of
        State -> steps(Steps, State, [observed(State) | Seen])
    catch
        Class:Error:Stack ->
            Text = io_lib:format("~p:~p at ~p", [Class, Error, hd(Stack)]),
            lists:reverse([#{crash => iolist_to_binary(Text)} | Seen])
    end.

step(#{<<"op">> := <<"tick">>} = Step, State) ->
    case rabbit_fifo:tick(maps:get(<<"ts">>, Step), State) of
        [{mod_call, _, spawn_deleter, _}] ->
            put(answer, #{delete_queue => true});
        [{aux, {handle_tick, [_, _, Nodes]}}] ->
            put(answer, #{delete_queue => false, nodes => lists:sort([get({node, Node}) || Node <- Nodes])})
    end,
    State;
step(#{<<"op">> := Op, <<"index">> := Index, <<"ts">> := Time} = Step, State) ->
    Meta0 = #{index => Index, system_time => Time, machine_version => 5, term => 1, from => from,
              reply_mode => await_consensus},
    {Meta, Command} = case command(Op, Step, State) of
                          {notify, Pid, Made} -> {Meta0#{reply_mode => {notify, 1, Pid}}, Made};
                          Made -> {Meta0, Made}
                      end,
    put(log, maps:put(Index, Command, get(log))),
    {NewState, Reply, Effects} = case rabbit_fifo:apply(Meta, Command, State) of
                                     {A, B} -> {A, B, []};
                                     {A, B, C} -> {A, B, C}
                                 end,
    Reply =:= '$ra_no_reply' orelse put(answer, #{reply => reply(Reply, Step)}),
    effects(Effects),
    NewState.

%% --- names ---------------------------------------------------------------------------------------------------------

pid(Text) ->
    [Name, Node] = binary:split(Text, <<"@">>),
    Number = erlang:phash2(Name, 30000),
    External = <<131, 88, 119, (byte_size(Node) + 5), Node/binary, "@host", Number:32, 0:32, 1:32>>,
    Pid = binary_to_term(External),
    put({pid, Pid}, Text),
    put({node, node(Pid)}, Node),
    Pid.

text(Pid) -> get({pid, Pid}).

node_of(Node) -> node(pid(<<"any@", Node/binary>>)).

consumer_id(#{<<"consumer">> := Tag}) -> {Tag, pid(maps:get(Tag, get(consumers)))}.

key(#{<<"by_id">> := true} = Step) -> consumer_id(Step);
key(#{<<"consumer">> := Tag} = Step) -> maps:get(Tag, get(keys), consumer_id(Step)).

key_json(Key) when is_integer(Key) -> Key;
key_json(_) -> <<"id">>.

%% --- commands ------------------------------------------------------------------------------------------------------

config(Config) ->
    Names = [{max_length, <<"max_length">>}, {max_bytes, <<"max_bytes">>}, {msg_ttl, <<"message_ttl">>},
             {expires, <<"expires">>}, {created, <<"created">>}, {delivery_limit, <<"delivery_limit">>},
             {single_active_consumer_on, <<"single_active_consumer">>}],
    Given = maps:from_list([{Name, maps:get(Key, Config)} || {Name, Key} <- Names, is_map_key(Key, Config)]),
    Handler = case maps:get(<<"dead_letter">>, Config, <<"disabled">>) of
                  <<"disabled">> -> undefined;
                  <<"at_most_once">> -> {at_most_once, {dead, letter, []}};
                  <<"at_least_once">> -> at_least_once
              end,
    Overflow = binary_to_atom(maps:get(<<"overflow">>, Config, <<"drop_head">>)),
    Given#{name => q, queue_resource => {resource, <<"/">>, queue, <<"q">>}, dead_letter_handler => Handler,
           overflow_strategy => Overflow}.

command(<<"enqueue">>, #{<<"pid">> := Pid, <<"seq">> := Seq, <<"msg">> := Body} = Step, _) ->
    Names = [{ttl, <<"ttl">>}, {p, <<"priority">>}, {delivery_count, <<"failed">>}],
    Annotations = maps:from_list([{Name, maps:get(Key, Step)} || {Name, Key} <- Names, is_map_key(Key, Step)]),
    Message = {mc, ?MODULE, Body, Annotations},
    case Pid of
        null -> {enqueue, undefined, undefined, Message};
        _ -> {notify, pid(Pid), {e, Seq, Message, ?MODULE:size(Body)}}
    end;
command(<<"register_enqueuer">>, #{<<"pid">> := Pid}, _) -> {register_enqueuer, pid(Pid)};
command(<<"attach">>, #{<<"life">> := Life, <<"mode">> := Mode, <<"priority">> := Priority} = Step, _) ->
    Spec = case Mode of
               #{<<"prefetch">> := Prefetch} -> {simple_prefetch, Prefetch};
               #{<<"credited">> := Count} -> {credited, Count}
           end,
    {checkout, consumer_id(Step), {binary_to_atom(Life), Spec}, #{priority => Priority}};
command(<<"dequeue">>, #{<<"settlement">> := Settlement} = Step, _) ->
    {checkout, consumer_id(Step), {dequeue, binary_to_atom(Settlement)}, #{}};
command(<<"cancel">>, Step, _) -> {checkout, consumer_id(Step), cancel, #{}};
command(<<"remove">>, Step, _) -> {checkout, consumer_id(Step), remove, #{}};
command(<<"settle">>, #{<<"ids">> := Ids} = Step, _) -> {settle, key(Step), Ids};
command(<<"return">>, #{<<"ids">> := Ids} = Step, _) -> {return, key(Step), Ids};
command(<<"discard">>, #{<<"ids">> := Ids} = Step, _) -> {discard, key(Step), Ids};
command(<<"modify">>, #{<<"ids">> := Ids, <<"delivery_failed">> := Failed, <<"undeliverable_here">> := Here,
                        <<"annotations">> := Annotations} = Step, _) ->
    {modify, key(Step), Ids, Failed, Here, Annotations};
command(<<"requeue">>, #{<<"id">> := Id} = Step, State) ->
    Found = [{Key, Index, Header} || {Key, Consumer} <- maps:to_list(element(?CONSUMERS, State)),
                                     id_of(Consumer) == consumer_id(Step),
                                     {Held, [Index | Header]} <- maps:to_list(element(5, Consumer)), Held == Id],
    case Found of
        [{Key, Index, Header}] -> {requeue, Key, Id, Index, Header, message(Index)};
        [] -> {requeue, none, Id, 0, 0, <<>>}
    end;
command(<<"credit">>, #{<<"credit">> := Credit, <<"delivery_count">> := Count, <<"drain">> := Drain} = Step, _) ->
    {credit, key(Step), Credit, Count, Drain};
command(<<"purge">>, _, _) -> {purge};
command(<<"purge_nodes">>, #{<<"nodes">> := Nodes}, _) -> {purge_nodes, [node_of(Node) || Node <- Nodes]};
command(<<"update_config">>, #{<<"config">> := Config}, _) -> {update_config, config(Config)};
command(<<"expire">>, _, _) -> {timeout, expire_msgs};
command(<<"down">>, #{<<"pid">> := Pid, <<"reason">> := Reason}, _) -> {down, pid(Pid), binary_to_atom(Reason)};
command(<<"nodeup">>, #{<<"node">> := Node}, _) -> {nodeup, node_of(Node)};
command(<<"dlx_attach">>, #{<<"pid">> := Pid, <<"prefetch">> := Prefetch}, _) ->
    {dlx, {checkout, pid(Pid), Prefetch}};
command(<<"dlx_settle">>, #{<<"ids">> := Ids}, _) -> {dlx, {settle, Ids}}.

id_of(Consumer) ->
    Config = element(2, Consumer),
    {element(4, Config), element(3, Config)}.

message(Index) -> rabbit_fifo:get_msg(maps:get(Index, get(log))).

body(Index) -> text_of(message(Index)).

text_of({mc, _, Body, _}) -> Body.

%% --- replies -------------------------------------------------------------------------------------------------------

reply({ok, #{key := Key, next_msg_id := Next, credit := Credit, delivery_count := Count, num_checked_out := Held}},
      #{<<"consumer">> := Tag}) ->
    put(keys, maps:put(Tag, Key, get(keys))),
    #{attached => #{key => key_json(Key), next_msg_id => Next, credit => Credit, delivery_count => Count,
                    num_checked_out => Held}};
reply({ok, #{key := Key, num_checked_out := Held}}, _) ->
    #{cancelled => #{key => key_json(Key), num_checked_out => Held}};
reply({ok, None}, _) when map_size(None) == 0 -> #{cancelled => #{}};
reply({dequeue, empty}, _) -> #{dequeued => null};
reply({error, {unsupported, single_active_consumer}}, _) -> #{error => unsupported_single_active_consumer};
reply({error, Reason}, _) -> #{error => Reason};
reply({purge, Count}, _) -> #{purged => Count};
reply({send_credit_reply, Available}, _) -> #{credit => #{available => Available}};
reply({multi, [{send_credit_reply, Available}, {send_drained, {_, Drained}}]}, _) ->
    #{credit => #{available => Available, drained => Drained}};
reply(Word, _) when is_atom(Word) -> Word.

%% --- effects -------------------------------------------------------------------------------------------------------

effects(Effects) when is_list(Effects) -> lists:foreach(fun effect/1, Effects);
effects(Effect) -> effect(Effect).

add(Key, Value) -> put(Key, get(Key) ++ [Value]).

logged(Indexes) -> [maps:get(Index, get(log)) || Index <- Indexes].

effect({log, Indexes, Then, {local, _}}) -> effects(Then(logged(Indexes)));
effect({log, Indexes, Then}) -> effects(Then(logged(Indexes)));
effect({reply, _, {wrap_reply, {dequeue, {Id, {Header, Message}}, Ready}}}) ->
    put(answer, #{reply => #{dequeued => (counts(Header))#{id => Id, msg => text_of(Message), ready => Ready}}});
effect({send_msg, _, {delivery, Tag, Messages}, _}) ->
    New = [(counts(Header))#{id => Id, msg => text_of(Message)} || {Id, {Header, Message}} <- Messages],
    put(deliveries, maps:update_with(Tag, fun(Old) -> Old ++ New end, New, get(deliveries)));
effect({send_msg, Pid, {queue_status, Status}, _}) -> add(sends, #{to => text(Pid), queue_status => Status});
effect({send_msg, Pid, {credit_reply, Tag, Count, Credit, Available, Drain}, _}) ->
    add(sends, #{to => text(Pid), credit_reply => #{consumer => Tag, delivery_count => Count, credit => Credit,
                                                   available => Available, drain => Drain}});
effect({send_msg, _, {dlx_event, _, {dlx_delivery, Messages}}, _}) ->
    [add(dlx_deliveries, (letter(Message))#{id => Id, reason => Reason}) || {Id, {Reason, Message}} <- Messages];
effect({send_msg, _, {dlx_event, _, lookup_topology}, _}) -> ok;
effect({mod_call, rabbit_global_counters, messages_dead_lettered, [Reason, _, Strategy, Count]}) ->
    add(dead_letters, #{reason => Reason, strategy => Strategy, count => Count});
effect({mod_call, rabbit_global_counters, messages_dead_lettered_confirmed, [_, _, Count]}) ->
    put(dlx_confirmed, get(dlx_confirmed) + Count);
effect({mod_call, dead, letter, [Reason, Messages]}) ->
    add(dead_letters, #{reason => Reason, strategy => at_most_once, count => length(Messages),
                        messages => [letter(Message) || Message <- Messages]});
effect({mod_call, rabbit_quorum_queue, cancel_consumer_handler, [_, {Tag, _}]}) -> add(cancelled, Tag);
effect({mod_call, rabbit_quorum_queue, update_consumer_handler, [_, {Tag, _}, _, _, _, Active, Status, _]}) ->
    add(activity, #{consumer => Tag, active => Active, status => Status});
effect({monitor, process, Pid}) -> add(monitors, #{process => text(Pid)});
effect({monitor, node, Node}) -> add(monitors, #{node => get({node, Node})});
effect({mod_call, rabbit_log, _, _}) -> ok;
effect({aux, _}) -> ok;
effect({timer, _, _}) -> ok;
effect(garbage_collection) -> ok.

letter({mc, _, Body, Annotations}) -> #{msg => Body, failed => maps:get(delivery_count, Annotations, 0)}.

counts(Header) when is_map(Header) ->
    #{acquired => maps:get(acquired_count, Header, 0), failed => maps:get(delivery_count, Header, 0),
      annotations => maps:get(anns, Header, #{})};
counts(_) ->
    #{acquired => 0, failed => 0, annotations => #{}}.

%% --- state ---------------------------------------------------------------------------------------------------------

observed(State) ->
    Ready = ready(1, State),
    Waiting = [consumer(Consumer) || {_, Consumer} <- element(15, State)],
    {Letters, LetterBytes} = rabbit_fifo:query_stat_dlx(State),
    Held = case element(2, element(?DLX, State)) of
               undefined -> 0;
               Worker -> map_size(element(4, Worker))
           end,
    Seen = #{total => element(4, State),
             ready => Ready,
             returned => lists:sublist(Ready, lqueue:len(element(5, State))),
             checked_out => rabbit_fifo:query_messages_checked_out(State),
             bytes_ready => element(13, State),
             bytes_checked_out => element(14, State),
             consumers => maps:from_list([consumer(Each) || Each <- maps:values(element(?CONSUMERS, State))]),
             waiting => [Tag || {Tag, _} <- Waiting],
             waiting_consumers => maps:from_list(Waiting),
             enqueuers => maps:from_list([{text(Pid), element(2, Each)} || {Pid, Each} <- maps:to_list(element(7, State))]),
             consumer_count => rabbit_fifo:query_consumer_count(State),
             dlx => #{waiting => Letters - Held, checked_out => Held, bytes => LetterBytes}},
    All = case rabbit_fifo:query_single_active_consumer(State) of
              disabled -> Seen;
              {error, _} -> Seen#{active => null};
              {value, {Tag, _}} -> Seen#{active => Tag}
          end,
    (get(answer))#{deliveries => get(deliveries), dead_letters => in_order(get(dead_letters)),
                   dlx_deliveries => get(dlx_deliveries), dlx_confirmed => get(dlx_confirmed), sends => get(sends),
                   cancelled => get(cancelled), monitors => get(monitors), activity => get(activity), state => All}.

%% What drop_head dropped last comes first in its effects.
in_order(Letters) ->
    {Dropped, Others} = lists:partition(fun(#{reason := Reason}) -> Reason =:= maxlen end, Letters),
    Others ++ lists:reverse(Dropped).

ready(Position, State) ->
    case rabbit_fifo:query_peek(Position, State) of
        {ok, [Index | _]} -> [body(Index) | ready(Position + 1, State)];
        _ -> []
    end.

consumer({consumer, {consumer_cfg, _, _, Tag, _, Life, Priority}, Status, Next, Held, Credit, Count}) ->
    Messages = [{integer_to_binary(Id), maps:remove(annotations, (counts(Header))#{msg => body(Index)})}
                || {Id, [Index | Header]} <- maps:to_list(Held)],
    {Tag, #{status => Status, credit => Credit, delivery_count => Count, next_msg_id => Next, life => Life,
            priority => Priority, checked_out => maps:from_list(Messages)}}.

%% Carries out steps, in the notation of conformance cases, on rabbit_fifo of RabbitMQ 4.0.5, and writes down what each
%% gives in the same notation: see beside_rabbitmq.py. Positions of records are those of that version.
-module(rabbit_fifo_driver).
-export([main/1, size/1]).
size(B) -> {0, byte_size(B)}.
main([In, Out]) ->
  logger:set_primary_config(level, none),
  {ok, Bin} = file:read_file(In),
  {ok, Cases} = thoas:decode(Bin),
  Res = [run(C) || C <- Cases],
  ok = file:write_file(Out, thoas:encode(Res)),
  init:stop().
pid(S) when is_binary(S) ->
  [Name, Node] = binary:split(S, <<"@">>),
  Id = erlang:phash2(Name, 30000),
  P = binary_to_term(<<131,88,119,(byte_size(Node)+5),Node/binary,"@host",Id:32,0:32,1:32>>),
  put({pid,P}, S), put({node, node(P)}, Node), P.
pids(P) -> get({pid,P}).
conf(M) ->
  B = #{name => q, queue_resource => {resource,<<"/">>,queue,<<"q">>}},
  DL = case maps:get(<<"dead_letter">>, M, <<"disabled">>) of
    <<"disabled">> -> undefined; <<"at_most_once">> -> {at_most_once,{dlmod,dlfun,[]}}; <<"at_least_once">> -> at_least_once end,
  L = [{max_length,<<"max_length">>},{max_bytes,<<"max_bytes">>},{msg_ttl,<<"message_ttl">>},{expires,<<"expires">>},{created,<<"created">>},{delivery_limit,<<"delivery_limit">>},{single_active_consumer_on,<<"single_active_consumer">>}],
  B1 = lists:foldl(fun({K,J},A) -> case M of #{J := V} -> A#{K => V}; _ -> A end end, B#{dead_letter_handler => DL}, L),
  case M of #{<<"overflow">> := O} -> B1#{overflow_strategy => binary_to_atom(O)}; _ -> B1 end.
run(#{<<"config">> := Conf, <<"consumers">> := Cons, <<"steps">> := Steps}) ->
  erase(), put(keys, #{}), put(cmds, #{}), put(cons, Cons),
  S = rabbit_fifo:init(conf(Conf)),
  put(sac, maps:get(<<"single_active_consumer">>, Conf, false)),
  go(Steps, S, []).
go([], _, Acc) -> lists:reverse(Acc);
go([St | R], S0, Acc) ->
  reset(),
  try step(St, S0) of
    S -> go(R, S, [obs(S) | Acc])
  catch C:E:T -> lists:reverse([#{crash => iolist_to_binary(io_lib:format("~p:~p ~p",[C,E,hd(T)]))} | Acc]) end.
reset() -> [put(K, V) || {K,V} <- [{deliveries,#{}},{dead,[]},{dlxd,[]},{dlxc,0},{sends,[]},{cancelled,[]},{monitors,[]},{activity,[]},{reply,null},{tick,none}]].
add(K, V) -> put(K, get(K) ++ [V]).
cid(St) -> T = maps:get(<<"consumer">>, St), {T, pid(maps:get(T, get(cons)))}.
key(St) -> {T,_}=Id = cid(St), case maps:get(<<"by_id">>, St, false) of true -> Id; _ -> maps:get(T, get(keys), Id) end.
step(#{<<"op">> := <<"tick">>} = St, S) ->
  case rabbit_fifo:tick(maps:get(<<"ts">>, St, 0), S) of
   [{mod_call,_,spawn_deleter,_}] -> put(tick, true);
   [{aux,{handle_tick,[_,_,Nodes]}}] -> put(tick, lists:sort([begin [A|_]=binary:split(atom_to_binary(N),<<"@">>),A end || N <- Nodes])) end, S;
step(St, S) ->
  Op = maps:get(<<"op">>, St), Idx = maps:get(<<"index">>, St),
  M0 = #{index => Idx, system_time => maps:get(<<"ts">>, St, 0), machine_version => 5, term => 1, from => from, reply_mode => await_consensus},
  {Meta, Cmd} = cmd(Op, St, M0, S),
  put(cmds, maps:put(Idx, Cmd, get(cmds))),
  {S1, Rep, Effs} = case rabbit_fifo:apply(Meta, Cmd, S) of {A,B} -> {A,B,[]}; {A,B,C} -> {A,B,C} end,
  case Rep of '$ra_no_reply' -> ok; _ -> put(reply, reply(Op, Rep, St)) end,
  effs(Effs), S1.
cmd(<<"enqueue">>, St, M, _) ->
  A0 = case maps:get(<<"ttl">>, St, null) of null -> #{}; T -> #{ttl => T} end,
  A1 = A0#{p => maps:get(<<"priority">>, St, 4)},
  A2 = case maps:get(<<"failed">>, St, 0) of 0 -> A1; F -> A1#{delivery_count => F} end,
  Body = maps:get(<<"msg">>, St), Msg = {mc, rabbit_fifo_driver, Body, A2},
  case maps:get(<<"pid">>, St) of null -> {M, {enqueue, undefined, undefined, Msg}};
    P -> {M#{reply_mode => {notify, 1, pid(P)}}, {e, maps:get(<<"seq">>, St), Msg, {0, byte_size(Body)}}} end;
cmd(<<"register_enqueuer">>, St, M, _) -> {M, {register_enqueuer, pid(maps:get(<<"pid">>, St))}};
cmd(<<"attach">>, St, M, _) ->
  Mode = case maps:get(<<"mode">>, St) of #{<<"prefetch">> := N} -> {simple_prefetch, N}; #{<<"credited">> := C} -> {credited, C} end,
  {M, {checkout, cid(St), {binary_to_atom(maps:get(<<"life">>, St)), Mode}, #{priority => maps:get(<<"priority">>, St, 0)}}};
cmd(<<"dequeue">>, St, M, _) -> {M, {checkout, cid(St), {dequeue, binary_to_atom(maps:get(<<"settlement">>, St))}, #{}}};
cmd(<<"cancel">>, St, M, _) -> {M, {checkout, cid(St), cancel, #{}}};
cmd(<<"remove">>, St, M, _) -> {M, {checkout, cid(St), remove, #{}}};
cmd(<<"settle">>, St, M, _) -> {M, {settle, key(St), maps:get(<<"ids">>, St)}};
cmd(<<"return">>, St, M, _) -> {M, {return, key(St), maps:get(<<"ids">>, St)}};
cmd(<<"discard">>, St, M, _) -> {M, {discard, key(St), maps:get(<<"ids">>, St)}};
cmd(<<"modify">>, St, M, _) -> {M, {modify, key(St), maps:get(<<"ids">>, St), maps:get(<<"delivery_failed">>, St), maps:get(<<"undeliverable_here">>, St), maps:get(<<"annotations">>, St, #{})}};
cmd(<<"requeue">>, St, M, S) ->
  Id = maps:get(<<"id">>, St), K = key(St), {_, CId} = {0, cid(St)},
  Cons = element(10, S),
  Found = [{Key, C} || {Key, C} <- maps:to_list(Cons), Key == K orelse {element(4, element(2, C)), element(3, element(2, C))} == CId],
  case Found of
    [{Key, C} | _] -> case element(5, C) of
        #{Id := [I | H]} -> {M, {requeue, Key, Id, I, H, rabbit_fifo:get_msg(maps:get(I, get(cmds)))}};
        _ -> {M, {requeue, Key, Id, 0, 0, <<>>}} end;
    [] -> {M, {requeue, K, Id, 0, 0, <<>>}} end;
cmd(<<"credit">>, St, M, _) -> {M, {credit, key(St), maps:get(<<"credit">>, St), maps:get(<<"delivery_count">>, St), maps:get(<<"drain">>, St)}};
cmd(<<"purge">>, _, M, _) -> {M, {purge}};
cmd(<<"purge_nodes">>, St, M, _) -> {M, {purge_nodes, [node(pid(<<"x@", N/binary>>)) || N <- maps:get(<<"nodes">>, St)]}};
cmd(<<"update_config">>, St, M, _) -> {M, {update_config, conf(maps:get(<<"config">>, St))}};
cmd(<<"expire">>, _, M, _) -> {M, {timeout, expire_msgs}};
cmd(<<"down">>, St, M, _) -> {M, {down, pid(maps:get(<<"pid">>, St)), binary_to_atom(maps:get(<<"reason">>, St))}};
cmd(<<"nodeup">>, St, M, _) -> N = maps:get(<<"node">>, St), {M, {nodeup, node(pid(<<"x@", N/binary>>))}};
cmd(<<"dlx_attach">>, St, M, _) -> {M, {dlx, {checkout, pid(maps:get(<<"pid">>, St)), maps:get(<<"prefetch">>, St)}}};
cmd(<<"dlx_settle">>, St, M, _) -> {M, {dlx, {settle, maps:get(<<"ids">>, St)}}}.
kj(K) when is_integer(K) -> K; kj(_) -> <<"id">>.
reply(<<"attach">>, {ok, #{key := K} = R}, St) ->
  put(keys, maps:put(maps:get(<<"consumer">>, St), K, get(keys))),
  #{attached => #{key => kj(K), next_msg_id => maps:get(next_msg_id, R), credit => maps:get(credit, R), delivery_count => maps:get(delivery_count, R), num_checked_out => maps:get(num_checked_out, R)}};
reply(_, {dequeue, empty}, _) -> #{dequeued => null};
reply(_, {error, {unsupported, single_active_consumer}}, _) -> #{error => unsupported_single_active_consumer};
reply(_, {error, X}, _) -> #{error => X};
reply(_, {purge, N}, _) -> #{purged => N};
reply(_, {ok, #{key := K, num_checked_out := N}}, _) -> #{cancelled => #{key => kj(K), num_checked_out => N}};
reply(_, {ok, M}, _) when map_size(M) == 0 -> #{cancelled => #{}};
reply(_, {send_credit_reply, N}, _) -> #{credit => #{available => N}};
reply(_, {multi, [{send_credit_reply, N}, {send_drained, {_, D}}]}, _) -> #{credit => #{available => N, drained => D}};
reply(_, A, _) when is_atom(A) -> A.
effs(L) when is_list(L) -> [eff(E) || E <- L]; effs(E) -> eff(E).
look(Idxs) -> [maps:get(I, get(cmds)) || I <- Idxs].
body({mc,_,B,_}) -> B.
hget(K, H) when is_map(H) -> maps:get(K, H, undefined); hget(_, _) -> undefined.
num(undefined) -> 0; num(N) -> N.
anns(H) -> case hget(anns, H) of undefined -> #{}; A -> A end.
eff({log, I, F, {local, _}}) -> effs(F(look(I)));
eff({log, I, F}) -> effs(F(look(I)));
eff({reply, _, {wrap_reply, {dequeue, {Id, {H, Msg}}, Ready}}}) ->
  put(reply, #{dequeued => #{id => Id, msg => body(Msg), acquired => num(hget(acquired_count, H)), failed => num(hget(delivery_count, H)), ready => Ready}});
eff({send_msg, _, {delivery, Tag, Msgs}, _}) ->
  D = get(deliveries), L = [#{id => Id, msg => body(M), acquired => num(hget(acquired_count, H)), failed => num(hget(delivery_count, H)), annotations => anns(H)} || {Id, {H, M}} <- Msgs],
  put(deliveries, D#{Tag => maps:get(Tag, D, []) ++ L});
eff({send_msg, P, {queue_status, X}, _}) -> add(sends, #{to => pids(P), queue_status => X});
eff({send_msg, P, {credit_reply, Tag, DC, C, Av, Dr}, _}) -> add(sends, #{to => pids(P), credit_reply => #{consumer => Tag, delivery_count => DC, credit => C, available => Av, drain => Dr}});
eff({send_msg, _, {dlx_event, _, {dlx_delivery, Msgs}}, _}) ->
  [add(dlxd, #{id => Id, reason => R, msg => body(M), failed => maps:get(delivery_count, element(4, M), 0)}) || {Id, {R, M}} <- Msgs];
eff({send_msg, _, {dlx_event, _, lookup_topology}, _}) -> ok;
eff({mod_call, rabbit_global_counters, messages_dead_lettered, [R, _, S, N]}) -> add(dead, #{reason => R, strategy => S, count => N});
eff({mod_call, rabbit_global_counters, messages_dead_lettered_confirmed, [_, _, N]}) -> put(dlxc, get(dlxc) + N);
eff({mod_call, dlmod, dlfun, [R, Msgs]}) -> case Msgs of [] -> ok; _ -> add(dead, #{reason => R, strategy => at_most_once, count => length(Msgs), messages => [#{msg => body(M), failed => maps:get(delivery_count, element(4, M), 0)} || M <- Msgs]}) end;
eff({mod_call, rabbit_quorum_queue, cancel_consumer_handler, [_, {Tag, _}]}) -> add(cancelled, Tag);
eff({mod_call, rabbit_quorum_queue, update_consumer_handler, [_, {Tag, _}, _, _, _, A, S, _]}) -> add(activity, #{consumer => Tag, active => A, status => S});
eff({monitor, process, P}) -> add(monitors, #{process => pids(P)});
eff({monitor, node, N}) -> add(monitors, #{node => get({node, N})});
eff({mod_call, rabbit_log, _, _}) -> ok;
eff({aux, _}) -> ok;
eff(garbage_collection) -> ok;
eff({timer, _, _}) -> ok.
con({consumer, {consumer_cfg, _, _, Tag, _, Life, Pr}, Status, Next, Ch, Credit, DC}) ->
  {Tag, #{status => Status, credit => Credit, delivery_count => DC, next_msg_id => Next, life => Life, priority => Pr,
    checked_out => maps:from_list([{integer_to_binary(I), #{msg => body(rabbit_fifo:get_msg(maps:get(Ix, get(cmds)))), acquired => num(hget(acquired_count, H)), failed => num(hget(delivery_count, H))}} || {I, [Ix | H]} <- maps:to_list(Ch)])}}.
peek(P, S) -> case rabbit_fifo:query_peek(P, S) of {ok, [I | _]} -> [body(rabbit_fifo:get_msg(maps:get(I, get(cmds)))) | peek(P + 1, S)]; _ -> [] end.
%% Effects of drop_head come last first.
dead(L) ->
  {M, O} = lists:partition(fun(#{reason := R}) -> R == maxlen end, L),
  O ++ lists:reverse(M).
obs(S) ->
  Ready = peek(1, S), NR = lqueue:len(element(5, S)),
  Waiting = [con(C) || {_, C} <- element(15, S)],
  {NumDlx, BytesDlx} = rabbit_fifo:query_stat_dlx(S),
  Dlx = element(12, S),
  DlxOut = case element(2, Dlx) of undefined -> 0; C -> maps:size(element(4, C)) end,
  St0 = #{total => element(4, S), ready => Ready, returned => lists:sublist(Ready, NR), checked_out => rabbit_fifo:query_messages_checked_out(S),
    bytes_ready => element(13, S), bytes_checked_out => element(14, S),
    consumers => maps:from_list([con(C) || C <- maps:values(element(10, S))]),
    waiting => [T || {T, _} <- Waiting], waiting_consumers => maps:from_list(Waiting),
    enqueuers => maps:from_list([{pids(P), element(2, E)} || {P, E} <- maps:to_list(element(7, S))]),
    consumer_count => rabbit_fifo:query_consumer_count(S),
    dlx => #{waiting => NumDlx - DlxOut, checked_out => DlxOut, bytes => BytesDlx}},
  St = case rabbit_fifo:query_single_active_consumer(S) of disabled -> St0; {error, _} -> St0#{active => null}; {value, {T, _}} -> St0#{active => T} end,
  O = #{deliveries => get(deliveries), dead_letters => dead(get(dead)), dlx_deliveries => get(dlxd), dlx_confirmed => get(dlxc), sends => get(sends), cancelled => get(cancelled), monitors => get(monitors), activity => get(activity), state => St},
  case get(tick) of none -> O#{reply => get(reply)}; true -> O#{delete_queue => true}; Ns -> O#{delete_queue => false, nodes => Ns} end.

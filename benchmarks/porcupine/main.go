// Judges a history with Porcupine, for benchmarks/linearizability.py: `runner MODEL FILE SECONDS`.
//
// FILE holds one op a line, as JSON: process, type, f, key and value. An op of type info may have taken effect at any
// later moment: it returns after everything else, and its answer is unknown. Reads of that kind are left out.
// Prints one line of JSON: the answer, and the CPU and wall seconds of the
// check alone, and by how many MiB the memory grew in it.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/anishathalye/porcupine"
)

type line struct {
	Process int             `json:"process"`
	Type    string          `json:"type"`
	F       string          `json:"f"`
	Key     string          `json:"key"`
	Value   json.RawMessage `json:"value"`
}

type call struct {
	f, key   string
	from, to int64
	text     string
}

type answer struct {
	known   bool
	matched bool
	empty   bool
	number  int64
	text    string
}

const none = int64(-1) << 62

func main() {
	if len(os.Args) != 4 {
		fail("usage: runner MODEL FILE SECONDS")
	}
	seconds, err := strconv.ParseFloat(os.Args[3], 64)
	check(err)
	events := read(os.Args[2])
	model := modelOf(os.Args[1])
	runtime.GC()
	held := memory("VmRSS:")
	check(os.WriteFile("/proc/self/clear_refs", []byte("5"), 0))
	began, cpu := time.Now(), cpuSeconds()
	result := checked(model, events, cpu+seconds)
	used, took := cpuSeconds()-cpu, time.Since(began).Seconds()
	fmt.Printf("{\"answer\": %q, \"cpu_s\": %.6f, \"wall_s\": %.6f, \"mib\": %.1f}\n",
		string(result), used, took, float64(memory("VmHWM:")-held)/1024)
}

// Unknown once the process has used so much CPU: on a busy machine a limit of wall time would be a shorter one.
func checked(model porcupine.Model, events []porcupine.Event, untilCPU float64) porcupine.CheckResult {
	done := make(chan porcupine.CheckResult, 1)
	go func() { done <- porcupine.CheckEventsTimeout(model, events, 0) }()
	for cpuSeconds() < untilCPU {
		select {
		case result := <-done:
			return result
		case <-time.After(20 * time.Millisecond):
		}
	}
	return porcupine.Unknown
}

func modelOf(name string) porcupine.Model {
	switch name {
	case "cas-register":
		return porcupine.Model{PartitionEvent: byKey, Init: func() interface{} { return none }, Step: stepRegister}
	case "kv":
		return porcupine.Model{PartitionEvent: byKey, Init: func() interface{} { return "" }, Step: stepStore}
	case "fifo-queue":
		return porcupine.Model{Init: func() interface{} { return "" }, Step: stepQueue}
	case "stack":
		return porcupine.Model{Init: func() interface{} { return "" }, Step: stepStack}
	}
	fail("unknown model " + name)
	return porcupine.Model{}
}

func stepRegister(state, input, output interface{}) (bool, interface{}) {
	held, in, out := state.(int64), input.(call), output.(answer)
	switch in.f {
	case "read":
		return !out.known || out.number == held, held
	case "write":
		return true, in.to
	}
	if out.known && out.matched != (held == in.from) {
		return false, held
	}
	if held == in.from {
		return true, in.to
	}
	return true, held
}

func stepStore(state, input, output interface{}) (bool, interface{}) {
	held, in, out := state.(string), input.(call), output.(answer)
	switch in.f {
	case "get":
		return !out.known || out.text == held, held
	case "put":
		return true, in.text
	}
	return true, held + in.text
}

// The state is the values, each with a comma behind it, the oldest first.
func stepQueue(state, input, output interface{}) (bool, interface{}) {
	held, in, out := state.(string), input.(call), output.(answer)
	if in.f == "enqueue" {
		return true, held + strconv.FormatInt(in.to, 10) + ","
	}
	if held == "" {
		return !out.known || out.empty, held
	}
	end := strings.IndexByte(held, ',')
	if out.known && (out.empty || held[:end] != strconv.FormatInt(out.number, 10)) {
		return false, held
	}
	return true, held[end+1:]
}

// The state is the values, each with a comma before it, the oldest first.
func stepStack(state, input, output interface{}) (bool, interface{}) {
	held, in, out := state.(string), input.(call), output.(answer)
	if in.f == "push" {
		return true, held + "," + strconv.FormatInt(in.to, 10)
	}
	if held == "" {
		return !out.known || out.empty, held
	}
	end := strings.LastIndexByte(held, ',')
	if out.known && (out.empty || held[end+1:] != strconv.FormatInt(out.number, 10)) {
		return false, held
	}
	return true, held[:end]
}

func byKey(events []porcupine.Event) [][]porcupine.Event {
	keys := map[int]string{}
	places := map[string]int{}
	parts := [][]porcupine.Event{}
	for _, event := range events {
		if event.Kind == porcupine.CallEvent {
			keys[event.Id] = event.Value.(call).key
		}
		key := keys[event.Id]
		place, seen := places[key]
		if !seen {
			place = len(parts)
			places[key] = place
			parts = append(parts, nil)
		}
		parts[place] = append(parts[place], event)
	}
	return parts
}

func read(path string) []porcupine.Event {
	file, err := os.Open(path)
	check(err)
	defer file.Close()
	lines := []line{}
	scanner := bufio.NewScanner(file)
	scanner.Buffer(make([]byte, 1<<20), 1<<24)
	for scanner.Scan() {
		var found line
		check(json.Unmarshal(scanner.Bytes(), &found))
		lines = append(lines, found)
	}
	check(scanner.Err())
	return eventsOf(lines)
}

func eventsOf(lines []line) []porcupine.Event {
	ended := map[int]line{}
	invoked := map[int]int{}
	for place, each := range lines {
		if each.Type == "invoke" {
			invoked[each.Process] = place
		} else {
			ended[invoked[each.Process]] = each
		}
	}
	events := []porcupine.Event{}
	crashed := []porcupine.Event{}
	ids := map[int]int{}
	for place, each := range lines {
		if each.Type == "invoke" {
			end, completed := ended[place]
			unknown := !completed || end.Type == "info"
			delete(ids, each.Process)
			if completed && end.Type == "fail" || unknown && (each.F == "read" || each.F == "get") {
				continue
			}
			ids[each.Process] = place
			events = append(events, porcupine.Event{ClientId: each.Process, Kind: porcupine.CallEvent, Value: callOf(each), Id: place})
			if unknown {
				crashed = append(crashed, porcupine.Event{ClientId: each.Process, Kind: porcupine.ReturnEvent, Value: answer{}, Id: place})
				delete(ids, each.Process)
			}
		} else if id, open := ids[each.Process]; open {
			events = append(events, porcupine.Event{ClientId: each.Process, Kind: porcupine.ReturnEvent, Value: answerOf(each), Id: id})
			delete(ids, each.Process)
		}
	}
	return append(events, crashed...)
}

func callOf(each line) call {
	made := call{f: each.F, key: each.Key}
	switch each.F {
	case "cas":
		var pair [2]int64
		check(json.Unmarshal(each.Value, &pair))
		made.from, made.to = pair[0], pair[1]
	case "put", "append":
		check(json.Unmarshal(each.Value, &made.text))
	case "write", "enqueue", "push":
		check(json.Unmarshal(each.Value, &made.to))
	}
	return made
}

func answerOf(each line) answer {
	made := answer{known: true, matched: true, number: none}
	text := string(each.Value)
	made.empty = text == "" || text == "null"
	switch {
	case each.F == "cas":
		made.matched = text != "false"
	case made.empty:
	case each.F == "get":
		check(json.Unmarshal(each.Value, &made.text))
	case each.F == "read" || each.F == "dequeue" || each.F == "pop":
		check(json.Unmarshal(each.Value, &made.number))
	}
	return made
}

func cpuSeconds() float64 {
	var used syscall.Rusage
	check(syscall.Getrusage(syscall.RUSAGE_SELF, &used))
	return float64(used.Utime.Sec+used.Stime.Sec) + float64(used.Utime.Usec+used.Stime.Usec)/1e6
}

// memory is a figure of this process in KiB: VmRSS now, VmHWM at its peak since that was cleared.
func memory(name string) int64 {
	status, err := os.ReadFile("/proc/self/status")
	check(err)
	for _, each := range strings.Split(string(status), "\n") {
		if strings.HasPrefix(each, name) {
			kib, err := strconv.ParseInt(strings.Fields(each)[1], 10, 64)
			check(err)
			return kib
		}
	}
	return 0
}

func check(err error) {
	if err != nil {
		fail(err.Error())
	}
}

func fail(what string) {
	fmt.Fprintln(os.Stderr, "runner: "+what)
	os.Exit(2)
}

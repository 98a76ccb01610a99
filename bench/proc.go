package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"
)

// tick is the unit of the kernel's times: USER_HZ is 100 on every Linux.
const tick = 10 * time.Millisecond

// process is what the kernel says about a process.
type process struct {
	pid, parent int
	// own is its CPU time, reaped that of its children that ended.
	own, reaped time.Duration
}

// cpuOfSelf is the CPU time of this process, without its children.
func cpuOfSelf() (time.Duration, error) {
	var r syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
		return 0, fmt.Errorf("reading this process's CPU time: %w", err)
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano()), nil
}

// cpuOfTrees is the CPU time of processes and all their children, those that ended among
// them.
func cpuOfTrees(pids []int) (sum time.Duration, err error) {
	if len(pids) == 0 {
		return 0, nil
	}
	all, err := processes()
	if err != nil {
		return 0, err
	}
	for _, pid := range pids {
		tree, err := sumTree(all, pid)
		if err != nil {
			return 0, err
		}
		sum += tree
	}
	return sum, nil
}

// sumTree adds up the tree below the process.
func sumTree(all []process, root int) (time.Duration, error) {
	children := make(map[int][]process, len(all))
	var sum time.Duration
	found := false
	for _, p := range all {
		if p.pid == root {
			sum, found = p.own+p.reaped, true
		}
		children[p.parent] = append(children[p.parent], p)
	}
	if !found {
		return 0, fmt.Errorf("there is no process %d any more", root)
	}
	for parents := []int{root}; len(parents) > 0; parents = parents[1:] {
		for _, c := range children[parents[0]] {
			sum += c.own + c.reaped
			parents = append(parents, c.pid)
		}
	}
	return sum, nil
}

// processes reads /proc.
func processes() ([]process, error) {
	files, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil || len(files) == 0 {
		return nil, errors.Join(errors.New("this system has no /proc: CPU times cannot be measured here"), err)
	}
	all := make([]process, 0, len(files))
	for _, file := range files {
		text, err := os.ReadFile(file)
		switch {
		case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ESRCH):
			continue // it ended meanwhile
		case err != nil:
			return nil, fmt.Errorf("reading CPU times: %w", err)
		}
		p, err := parseStat(text)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		all = append(all, p)
	}
	return all, nil
}

// cpuOfMachine is the time that all processors of this machine were busy, or taken away
// by the machine that it runs on.
func cpuOfMachine() (time.Duration, error) {
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0, fmt.Errorf("reading the machine's CPU time: %w", err)
	}
	return parseMachine(text)
}

// parseMachine reads the first line of /proc/stat.
func parseMachine(text []byte) (time.Duration, error) {
	line, _, _ := bytes.Cut(text, []byte("\n"))
	fields := bytes.Fields(line)
	const user, nice, system, irq, softirq, steal = 1, 2, 3, 6, 7, 8
	if len(fields) <= steal || string(fields[0]) != "cpu" {
		return 0, errStat
	}
	var sum time.Duration
	for _, at := range []int{user, nice, system, irq, softirq, steal} {
		n, err := strconv.ParseInt(string(fields[at]), 10, 64)
		if err != nil {
			return 0, errors.Join(errStat, err)
		}
		sum += time.Duration(n) * tick
	}
	return sum, nil
}

// parent returns the parent of a process.
func parent(pid int) (int, error) {
	text, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return 0, fmt.Errorf("looking for the parent of process %d: %w", pid, err)
	}
	p, err := parseStat(text)
	return p.parent, err
}

// errStat: a line of /proc is not as proc(5) has it.
var errStat = errors.New("unreadable process status")

// parseStat reads a line of /proc/PID/stat. The name is in parentheses and may hold any.
func parseStat(text []byte) (process, error) {
	var p process
	open, end := bytes.IndexByte(text, '('), bytes.LastIndexByte(text, ')')
	if open < 1 || end < open {
		return p, errStat
	}
	pid, err := strconv.Atoi(string(bytes.TrimSpace(text[:open])))
	if err != nil {
		return p, errors.Join(errStat, err)
	}
	fields := bytes.Fields(text[end+1:])
	const ppid, utime, stime, cutime, cstime = 1, 11, 12, 13, 14 // counted from the state
	if len(fields) <= cstime {
		return p, errStat
	}
	var numbers [5]int
	for i, at := range []int{ppid, utime, stime, cutime, cstime} {
		if numbers[i], err = strconv.Atoi(string(fields[at])); err != nil {
			return p, errors.Join(errStat, err)
		}
	}
	return process{
		pid: pid, parent: numbers[0],
		own: time.Duration(numbers[1]+numbers[2]) * tick, reaped: time.Duration(numbers[3]+numbers[4]) * tick,
	}, nil
}

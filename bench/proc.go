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

// cpuOfTree is the CPU time of a process and all its children, those that ended among
// them.
func cpuOfTree(pid int) (time.Duration, error) {
	all, err := processes()
	if err != nil {
		return 0, err
	}
	return sumTree(all, pid)
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

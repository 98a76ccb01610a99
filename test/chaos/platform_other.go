//go:build !linux

package main

import "syscall"

// dieWithParent does nothing: only Linux ends the children of a parent that is gone.
func dieWithParent(*syscall.SysProcAttr) {}

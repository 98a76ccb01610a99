package main

import "syscall"

// dieWithParent lets the kernel end a child whose parent is gone.
func dieWithParent(attributes *syscall.SysProcAttr) { attributes.Pdeathsig = syscall.SIGKILL }

package sandbox

import "syscall"

// diesWithUs ends a child with the process of the tests, however that ends.
var diesWithUs = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}

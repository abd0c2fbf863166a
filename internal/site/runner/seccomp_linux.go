package runner

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"runtime"

	"golang.org/x/sys/unix"
)

// architectures are the ones of which systemCalls knows that socket is the only way to open a socket.
var architectures = map[string]uint32{"amd64": unix.AUDIT_ARCH_X86_64, "arm64": unix.AUDIT_ARCH_AARCH64,
	"riscv64": unix.AUDIT_ARCH_RISCV64}

// systemCalls returns a filter, as seccomp takes it, that refuses the system calls for which the jail's namespaces are
// no border: keyrings belong to the user and are inherited, and so are sockets of other families, such as those to the
// host of a virtual machine. The calls of io_uring are not filtered, so it is refused too, and so are all calls of
// other architectures, such as 32-bit programs, whose numbers differ. Programs that hide their memory from others of
// their user, as Codex does, seem to succeed: they would hide their files too, which deletedFiles counts.
func systemCalls() ([]byte, error) {
	const (
		number, architecture, argument = 0, 4, 16   // offsets in seccomp_data, of a little-endian machine
		x32                            = 0x40000000 // and all numbers above
		missing                        = unix.SECCOMP_RET_ERRNO | uint32(unix.ENOSYS)
		noFamily                       = unix.SECCOMP_RET_ERRNO | uint32(unix.EAFNOSUPPORT)
	)
	native, ok := architectures[runtime.GOARCH]
	if !ok {
		return nil, fmt.Errorf("cannot filter the system calls of %s; works on amd64, arm64 and riscv64", runtime.GOARCH)
	}
	var program []unix.SockFilter
	load := func(offset uint32) {
		program = append(program, unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: offset})
	}
	end := func(result uint32) {
		program = append(program, unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: result})
	}
	skip := func(condition uint16, than uint32, yes, no uint8) { // jumps over so many instructions
		program = append(program, unix.SockFilter{Code: unix.BPF_JMP | condition | unix.BPF_K, Jt: yes, Jf: no, K: than})
	}
	load(architecture)
	skip(unix.BPF_JEQ, native, 1, 0)
	end(missing)
	load(number)
	skip(unix.BPF_JGE, x32, 0, 1)
	end(missing)
	for _, call := range []uint32{unix.SYS_ADD_KEY, unix.SYS_REQUEST_KEY, unix.SYS_KEYCTL, unix.SYS_IO_URING_SETUP} {
		skip(unix.BPF_JEQ, call, 0, 1)
		end(missing)
	}
	skip(unix.BPF_JEQ, unix.SYS_PRCTL, 0, 4)
	load(argument)
	skip(unix.BPF_JEQ, unix.PR_SET_DUMPABLE, 0, 1)
	end(unix.SECCOMP_RET_ERRNO) // none: as if it were done
	end(unix.SECCOMP_RET_ALLOW)
	skip(unix.BPF_JEQ, unix.SYS_SOCKET, 1, 0)
	end(unix.SECCOMP_RET_ALLOW)
	load(argument)
	for _, family := range []uint32{unix.AF_UNIX, unix.AF_INET, unix.AF_INET6, unix.AF_NETLINK} {
		skip(unix.BPF_JEQ, family, 0, 1)
		end(unix.SECCOMP_RET_ALLOW)
	}
	end(noFamily)
	var b bytes.Buffer
	err := binary.Write(&b, binary.LittleEndian, program)
	return b.Bytes(), err
}

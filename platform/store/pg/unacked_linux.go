package pg

import (
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// boundUnacked bounds how long a TCP connection keeps data that its peer does
// not acknowledge, so that a statement sent to a vanished server fails.
func boundUnacked(network, _ string, conn syscall.RawConn) error {
	if !strings.HasPrefix(network, "tcp") {
		return nil
	}
	var set error
	err := conn.Control(func(fd uintptr) {
		set = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(unackedFor.Milliseconds())) //nolint:gosec // a file descriptor
	})
	if err != nil {
		return err
	}
	return set
}

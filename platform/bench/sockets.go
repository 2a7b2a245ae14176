package bench

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"
)

// Sockets are WebSocket clients that only count the texts they get. They cost a
// goroutine and a kilobyte each, so that ten thousand of them leave the machine
// to the server.
type Sockets struct {
	conns []net.Conn
	texts atomic.Int64
	mu    sync.Mutex
	want  atomic.Int64  // written under mu
	here  chan struct{} // closed when texts has reached want
	lost  chan error    // holds the first socket's end that nobody asked for
	done  atomic.Bool
	group sync.WaitGroup
}

const (
	// dialers is how many sockets are opened at once: a flood of handshakes is not
	// what is measured.
	dialers = 64
	// perSource is how many connections come from one loopback address: below the
	// 28,000 ports that Linux gives to one side.
	perSource = 20_000
	// handshakeTimeout bounds one handshake.
	handshakeTimeout = 15 * time.Second
	// usualSockets and manySockets are how many are opened, by what the limit of
	// open files allows; sparedFiles are for everything else.
	usualSockets, manySockets, quickSockets = 10_000, 30_000, 200
	sparedFiles                             = 600
)

// SocketCount is how many sockets a stage may open: 30,000 where this process
// and its children may open so many files, else 10,000, else what is possible.
func (r *Rig) SocketCount() int {
	if r.quick {
		return quickSockets
	}
	var l unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &l); err != nil {
		return quickSockets
	}
	// The Go runtime has raised the soft limit to the hard one already.
	files := int(min(l.Cur, 1<<20)) - sparedFiles
	switch {
	case files >= manySockets && runtime.GOOS == "linux": // elsewhere 127.0.0.2 is no address
		return manySockets
	default:
		return min(files, usualSockets)
	}
}

// OpenSockets connects n clients, each with the token that token gives it, and
// returns when each has had its first text.
func OpenSockets(ctx context.Context, addr, target string, n int, token func(i int) (string, error)) (*Sockets, error) {
	s := &Sockets{conns: make([]net.Conn, n), lost: make(chan error, 1)}
	greeted := s.Expect(n)
	group, groupCtx := errgroup.WithContext(ctx)
	group.SetLimit(dialers)
	for i := range s.conns {
		group.Go(func() error {
			bearer, err := token(i)
			if err != nil {
				return err
			}
			return s.open(groupCtx, i, addr, target, bearer)
		})
	}
	err := group.Wait()
	if err == nil {
		err = s.Await(ctx, greeted)
	}
	if err != nil {
		s.Close()
		return nil, fmt.Errorf("bench: open %d WebSockets: %w", n, err)
	}
	return s, nil
}

// open connects the i-th socket and has it read until it ends.
func (s *Sockets) open(ctx context.Context, i int, addr, target, token string) error {
	dialer := net.Dialer{Timeout: handshakeTimeout}
	if source := i / perSource; source > 0 { // another loopback address has ports of its own
		dialer.LocalAddr = &net.TCPAddr{IP: net.IPv4(127, 0, 0, byte(1+source))}
	}
	conn, err := dialer.DialContext(ctx, "tcp", addr)
	if err != nil {
		return err
	}
	s.conns[i] = conn
	_ = conn.SetDeadline(time.Now().Add(handshakeTimeout)) // an open TCP connection takes it
	// The key need not be secret or new: it only shows that the other side speaks
	// the protocol, which this one does not check.
	_, err = fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: %s\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"+
		"Sec-WebSocket-Key: c3RhbXBlZGUtYmVuY2ghIQ==\r\nAuthorization: Bearer %s\r\n\r\n", target, addr, token)
	if err != nil {
		return err
	}
	const bufferBytes = 1024 // two of the server's messages
	in := bufio.NewReaderSize(conn, bufferBytes)
	if err := readHandshake(in); err != nil {
		return err
	}
	_ = conn.SetDeadline(time.Time{})
	s.group.Go(func() {
		if err := s.listen(conn, in); !s.done.Load() {
			select {
			case s.lost <- fmt.Errorf("a socket ended: %w", err):
			default:
			}
		}
	})
	return nil
}

// readHandshake reads the answer to the upgrade.
func readHandshake(in *bufio.Reader) error {
	status, err := in.ReadString('\n')
	if err != nil {
		return err
	}
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			return err
		}
		if line == "\r\n" {
			break
		}
	}
	const switching = "HTTP/1.1 101 "
	if len(status) < len(switching) || status[:len(switching)] != switching {
		return fmt.Errorf("the upgrade was answered %q", status)
	}
	return nil
}

// The opcodes of RFC 6455 that a server sends.
const (
	opText  = 0x1
	opClose = 0x8
	opPing  = 0x9
	opPong  = 0xA
)

// listen counts texts and answers pings until the connection ends, and says how.
func (s *Sockets) listen(conn net.Conn, in *bufio.Reader) error {
	for {
		opcode, n, err := readFrameHead(in)
		if err != nil {
			return err
		}
		switch opcode {
		case opText:
			if _, err := in.Discard(n); err != nil {
				return err
			}
			s.count()
		case opPing:
			payload := make([]byte, n)
			if _, err := io.ReadFull(in, payload); err != nil {
				return err
			}
			// A mask of zeros leaves the payload as it is; a client must set one.
			pong := append([]byte{0x80 | opPong, 0x80 | byte(n), 0, 0, 0, 0}, payload...)
			if _, err := conn.Write(pong); err != nil {
				return err
			}
		case opClose:
			return errors.New("the server closed it")
		default:
			return fmt.Errorf("a frame of type %d", opcode)
		}
	}
}

// readFrameHead reads the head of an unfragmented frame of up to 64 KiB; the
// server sends no others.
func readFrameHead(in *bufio.Reader) (opcode byte, n int, err error) {
	var head [2]byte
	if _, err := io.ReadFull(in, head[:]); err != nil {
		return 0, 0, err
	}
	opcode, n = head[0]&0x0F, int(head[1])
	const wide = 126 // two bytes of length follow
	switch {
	case head[0]&0x80 == 0 || n > wide:
		return 0, 0, fmt.Errorf("a frame that begins % x", head)
	case n == wide:
		var length [2]byte
		if _, err := io.ReadFull(in, length[:]); err != nil {
			return 0, 0, err
		}
		n = int(binary.BigEndian.Uint16(length[:]))
	}
	return opcode, n, nil
}

func (s *Sockets) count() {
	if s.texts.Add(1) < s.want.Load() {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.here != nil && s.texts.Load() >= s.want.Load() {
		close(s.here)
		s.here = nil
	}
}

// Expect returns a channel that closes when n more texts have come. Call it
// before they can come, and one at a time.
func (s *Sockets) Expect(n int) <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.want.Store(s.texts.Load() + int64(n))
	s.here = make(chan struct{})
	return s.here
}

// Await waits for what Expect announced. The end of a socket is an error, and so
// is a long silence.
func (s *Sockets) Await(ctx context.Context, here <-chan struct{}) error {
	const patience = time.Minute // a push to every socket is a matter of a second
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-here:
		return nil
	case err := <-s.lost:
		return err
	case <-timer.C:
		return fmt.Errorf("bench: %d of %d texts came within %s", s.texts.Load(), s.want.Load(), patience)
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Close ends all connections.
func (s *Sockets) Close() {
	s.done.Store(true)
	for _, conn := range s.conns {
		if conn != nil {
			_ = conn.Close()
		}
	}
	s.group.Wait()
}

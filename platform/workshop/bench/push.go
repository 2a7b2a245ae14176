package bench

import (
	"context"
	"encoding/json"
	"fmt"

	"stampede/platform/workshop/loadgen"
)

// openPush compares order pushes to shoppers who do not poll: each of thousands
// holds a WebSocket, all rush at the same moment, and the round ends when each
// has received the order on the socket. The baseline answers 202 to each
// attempt and writes the same message to one of its sockets: no grant, no
// order, no user.
func openPush(ctx context.Context, rig *Rig) (baseline, ours Side, err error) {
	// A server that has run before has spare memory, and its sockets would
	// appear to need none.
	if err := rig.restart(ctx); err != nil {
		return baseline, ours, err
	}
	s, item, first, said, err := granted(ctx, rig)
	if err != nil {
		return baseline, ours, err
	}
	if said.Push, err = s.message(ctx, first, said); err != nil {
		return baseline, ours, err
	}
	bare, url, err := startBare(ctx, rig, said)
	if err != nil {
		return baseline, ours, err
	}
	atBaseline := &listeners{child: bare, gather: func(n int) *loadgen.Crowd { return first.Repeat(url, n) }}
	atOurs := &listeners{child: s.Child, gather: func(n int) *loadgen.Crowd {
		return s.newCrowd([]int64{item}, n, rig.Users(n), manyConns)
	}}
	baseline, ours = atBaseline.side(), atOurs.side()
	ours.Work = func(ctx context.Context, n int) (Sample, error) {
		sample, err := atOurs.rush(ctx, n)
		if err == nil {
			sample.Figures[figureSockets], sample.Figures[figureMemory], sample.Figures[figureBaselineMemory] = float64(n), atOurs.kib, atBaseline.kib
		}
		return sample, err
	}
	return baseline, ours, nil
}

// message is the server's push to a shopper when the order is created.
func (s *Server) message(ctx context.Context, first *loadgen.Crowd, said answer) (string, error) {
	var ticket struct {
		OrderNo string `json:"order_no"`
	}
	if err := json.Unmarshal([]byte(said.Body), &ticket); err != nil {
		return "", fmt.Errorf("the answer to an attempt: %w", err)
	}
	if err := allWritten(ctx, first, []int{0}); err != nil {
		return "", err
	}
	token, err := first.Token(0)
	if err != nil {
		return "", err
	}
	order, err := get(ctx, s.URL+"/api/v1/orders/"+ticket.OrderNo, token)
	return `{"type":"order","order":` + string(order) + `}`, err
}

// listeners are the shoppers of one side. They are connected only while their
// side is measured: both sides together would exceed the open file limit of
// many systems.
type listeners struct {
	child  *Child
	gather func(n int) *loadgen.Crowd
	crowd  *loadgen.Crowd
	kib    float64 // the child's memory per socket, measured the first time most were opened
	most   int
}

func (l *listeners) side() Side {
	return Side{Prepare: l.connect, Work: l.rush, Check: l.disconnect}
}

// connect gathers shoppers, opens a socket for each, and fetches the paths that
// they lack.
func (l *listeners) connect(ctx context.Context, n int) error {
	l.crowd = l.gather(n)
	before, _ := residentKiB(l.child.PID())
	if err := l.crowd.Listen(ctx, n); err != nil {
		return err
	}
	if after, _ := residentKiB(l.child.PID()); n > l.most {
		l.most, l.kib = n, float64(after-before)/float64(n)
	}
	return allIssued(ctx, l.crowd.FetchPaths(ctx))
}

func (l *listeners) rush(ctx context.Context, n int) (Sample, error) {
	if _, _, err := fireAll(ctx, l.crowd, n, flatOut); err != nil {
		return Sample{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, writtenPatience)
	defer cancel()
	p := l.crowd.AwaitPushes(ctx)
	if p.Count != n {
		return Sample{}, fmt.Errorf("%d of %d sockets received their order within %s", p.Count, n, writtenPatience)
	}
	return Sample{Took: p.Last, Figures: percentiles(p.Took)}, nil
}

func (l *listeners) disconnect(context.Context, int) error {
	l.crowd.Close()
	return nil
}

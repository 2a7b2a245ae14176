package browse

import (
	"context"
	"net/http"

	"stampede/platform/edge/httpx"
	"stampede/seckill/internal/wire"
)

// timeInput is the client's send time, by its own clock.
type timeInput struct {
	ClientSend int64 `query:"client_send" doc:"The client's clock when it sends the request, in milliseconds since any epoch; it is echoed unchanged" example:"1760000000000"`
}

// serverTime carries three of the four timestamps from which a client computes
// its offset; the fourth is the client's own when the answer arrives. The
// server's two differ by the time it took to build the answer.
type serverTime struct {
	ServerTime    wire.Time `json:"server_time" doc:"The server's time"`
	ClientSend    int64     `json:"client_send" doc:"What the client sent as client_send, 0 if nothing" example:"1760000000000"`
	ServerReceive int64     `json:"server_receive" doc:"Unix milliseconds when the request was read" example:"1760000600003"`
	ServerSend    int64     `json:"server_send" doc:"Unix milliseconds when the answer was written" example:"1760000600003"`
}

type timeOutput struct {
	CacheControl string `header:"Cache-Control"`
	Body         serverTime
}

// timeProtocol tells clients how to count down to an opening. It is the
// exchange of the Network Time Protocol, whose error is at most half the round
// trip.
const timeProtocol = "How to count down to an opening with a client whose clock may be wrong by any amount. " +
	"Send client_send = t0, your clock. The answer has server_receive = t1 and server_send = t2, the server's; t3 is your clock when it arrives. " +
	"Your offset is ((t1 - t0) + (t2 - t3)) / 2, the round trip (t3 - t0) - (t2 - t1), and the error at most half of that. " +
	"Repeat five times, keep the offset of the shortest round trip, and repeat every minute, when the page becomes visible, and shortly before usable_from: " +
	"the offset changes when a device sleeps or its clock is set. The server's time is your clock plus the offset; " +
	"read your clock from a monotonic source where you have one. " +
	"Your clock decides nothing: an early attempt is answered 425 not-started with Retry-After, and the path stays valid."

// registerTime adds GET /api/v1/time.
func (b *Service) registerTime(api httpx.API) {
	httpx.Register(api, httpx.Op{
		Method: http.MethodGet, Path: "/api/v1/time", ID: "get-server-time", Tag: "shopper",
		Summary: "The server time by which sales open", Description: timeProtocol,
	}, b.time)
}

func (b *Service) time(_ context.Context, in *timeInput) (*timeOutput, error) {
	received := b.deps.Clock.Now()
	out := &timeOutput{CacheControl: "no-store"}
	sent := b.deps.Clock.Now()
	out.Body = serverTime{
		ServerTime: wire.Time(sent), ClientSend: in.ClientSend,
		ServerReceive: received.UnixMilli(), ServerSend: sent.UnixMilli(),
	}
	return out, nil
}

package browse

import (
	"context"
	"net/http"

	"stampede/platform/edge/httpx"
	"stampede/seckill/internal/wire"
)

// timeInput says when the client asked, by its own clock.
type timeInput struct {
	ClientSend int64 `query:"client_send" doc:"The client's clock when it asks, in milliseconds since any moment it likes; it comes back as it was sent" example:"1760000000000"`
}

// serverTime carries three of the four stamps from which a client finds its
// offset; the fourth is the client's own when the answer arrives. The server's
// two differ by the time that the answer took to make.
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
	"Ask with client_send = t0, your clock. The answer has server_receive = t1 and server_send = t2, the server's; t3 is your clock when it arrives. " +
	"Your offset is ((t1 - t0) + (t2 - t3)) / 2, the round trip (t3 - t0) - (t2 - t1), and the error at most half of that. " +
	"Ask five times, keep the offset of the shortest round trip, and ask again every minute, when the page becomes visible, and shortly before usable_from: " +
	"a device that slept or was set has another offset. The server's time is your clock plus the offset; " +
	"read your clock from a monotonic source where you have one. " +
	"Nothing is decided by your clock: whoever comes early is told 425 not-started with Retry-After, and the path stays good."

// registerTime adds GET /api/v1/time.
func (b *Service) registerTime(api httpx.API) {
	httpx.Register(api, httpx.Op{
		Method: http.MethodGet, Path: "/api/v1/time", ID: "get-server-time", Tag: "shopper",
		Summary: "The time that openings go by", Description: timeProtocol,
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

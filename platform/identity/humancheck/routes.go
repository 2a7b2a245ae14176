package humancheck

import (
	"context"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"stampede/platform/edge/httpx"
	"stampede/platform/edge/ratelimit"
)

// challengePath is where everybody gets challenges for what needs no item.
const challengePath = "/api/v1/challenge"

// publicRequest asks for a challenge before a login.
type publicRequest struct {
	Purpose string `query:"purpose" required:"true" enum:"login,register,sms" doc:"What the solution is for"`
}

// Limits are how often one subject may ask for a challenge, for the routes that
// hand them out: an answer of kind slide costs a picture.
func (s *Service) Limits(of httpx.Subject) []httpx.Limit {
	name := "challenge"
	if of == httpx.OfAddress {
		name = "challenge-address"
	}
	return []httpx.Limit{{Rule: ratelimit.Rule{Name: name, Count: s.cfg.PerMinute, Per: time.Minute}, Of: of}}
}

// Answer is a challenge as routes return it.
type Answer = httpx.Output[Challenge]

// Hand makes a challenge for a route, never to be cached: each is good for one.
// Faults are those of Challenge.
func (s *Service) Hand(ctx context.Context, kind Kind, sub Subject) (*Answer, error) {
	c, err := s.Challenge(ctx, kind, sub)
	if err != nil {
		return nil, err
	}
	return httpx.Answer(c), nil
}

// Routes registers the public route.
func (s *Service) Routes(rt *httpx.Router) {
	rt.API.Member("challenge", huma.Schema{
		Type: huma.TypeObject, AdditionalProperties: true,
		Description: "A check to pass at once, as GET challenge_url answers it, of human-check-required and human-check-failed",
	})
	rt.API.Member("challenge_url", huma.Schema{
		Type: huma.TypeString, Examples: []any{"/api/v1/challenge?purpose=login"},
		Description: "Where to get another check, of human-check-required and human-check-failed",
	})
	rt.API.Member("kind", huma.Schema{Type: huma.TypeString, Description: "The kind of check, of human-check-required and human-check-failed", Examples: []any{"slide"}})
	rt.API.Member("reason", huma.Schema{Type: huma.TypeString, Description: "What was wrong with the answer, of human-check-failed", Examples: []any{"used"}})
	httpx.Register(rt.API, httpx.Op{
		Method: http.MethodGet, Path: challengePath, ID: "get-challenge", Tag: "shopper",
		Summary: "Get a challenge before a login",
		Description: "Logging in, registering and asking for an SMS code answer 403 human-check-required when they come too often from one place. " +
			"Solve a challenge for the same purpose, from the same address, and send the request again with the solution in the header Human-Check. " +
			"Each solution is good once. Challenges for an item have a route of their own, which challenge_url names.",
		Problems: map[int]string{
			http.StatusUnprocessableEntity: "invalid", http.StatusServiceUnavailable: "human-check-unavailable",
		},
		Limits: s.Limits(httpx.OfAddress),
	}, func(ctx context.Context, in *publicRequest) (*Answer, error) {
		return s.Hand(ctx, s.cfg.Public, Subject{Purpose: in.Purpose, Address: httpx.ClientAddr(ctx)})
	})
}

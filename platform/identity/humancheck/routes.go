package humancheck

import (
	"context"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"stampede/platform/base/fault"
	"stampede/platform/edge/httpx"
	"stampede/platform/edge/ratelimit"
)

// challengePath serves challenges for requests without an item.
const challengePath = "/api/v1/challenge"

// publicRequest requests a challenge before a login.
type publicRequest struct {
	Purpose string `query:"purpose" required:"true" enum:"login,register,sms" doc:"What the solution is for"`
}

// Limits are how often one subject may request a challenge, for the routes that
// issue them: each slide costs a picture.
func (s *Service) Limits(of httpx.Subject) []httpx.Limit {
	name := "challenge"
	if of == httpx.OfAddress {
		name = "challenge-address"
	}
	return []httpx.Limit{{Rule: ratelimit.Rule{Name: name, Count: s.cfg.ChallengesPerMinute, Per: time.Minute}, Of: of}}
}

// Routes registers the public route.
func (s *Service) Routes(rt *httpx.Router) {
	rt.API.Member("challenge", huma.Schema{
		Type: huma.TypeObject, AdditionalProperties: true,
		Description: "With human-check-required and human-check-failed: a challenge to solve now, as GET challenge_url returns it",
	})
	rt.API.Member("challenge_url", huma.Schema{
		Type: huma.TypeString, Examples: []any{"/api/v1/challenge?purpose=login"},
		Description: "With human-check-required and human-check-failed: where to get another challenge",
	})
	rt.API.Member("kind", huma.Schema{Type: huma.TypeString, Description: "With human-check-required and human-check-failed: the kind of check", Examples: []any{"slide"}})
	rt.API.Member("reason", huma.Schema{Type: huma.TypeString, Description: "With human-check-failed: what was wrong with the solution", Examples: []any{"used"}})
	httpx.Register(rt.API, httpx.Op{
		Method: http.MethodGet, Path: challengePath, ID: "get-challenge", Tag: "shopper",
		Summary: "Get a challenge before a login",
		Description: "Requesting an SMS code answers 403 human-check-required, and so do logging in and registering when one address, device or phone does so too often. " +
			"Solve a challenge for the same purpose, from the same address, and send the request again with the solution in the header Human-Check. " +
			"A proof of work comes with that answer, as hard as it has to be; one of this route may be too easy for an address with a record. " +
			"Each solution is valid once. Challenges for an item have a separate route, which challenge_url names.",
		Refuses: []*fault.Error{ErrUnavailable},
		Limits:  s.Limits(httpx.OfAddress),
	}, func(ctx context.Context, in *publicRequest) (*httpx.Output[Challenge], error) {
		return httpx.Answered(s.Challenge(ctx, s.cfg.AuthHumanCheck, Subject{Purpose: in.Purpose, Address: httpx.ClientAddr(ctx)}))
	})
}

package main

import (
	"encoding/json"
	"os"
	"testing"

	"stampede/platform/workshop/require"
)

// TestEveryRouteHasRateLimits reads the committed document, which
// TestServedRoutes compares with the routes.
func TestEveryRouteHasRateLimits(t *testing.T) {
	t.Parallel()
	var doc struct {
		Paths map[string]map[string]json.RawMessage
	}
	raw, err := os.ReadFile("platform/edge/httpx/openapi.json")
	if err == nil {
		err = json.Unmarshal(raw, &doc)
	}
	require.NoError(t, err)
	operations := 0
	for path, methods := range doc.Paths {
		for method, raw := range methods {
			var op struct {
				OperationID string `json:"operationId"`
				Limits      []struct {
					Name, Of, Scope string
					Count, Seconds  int
				} `json:"x-rate-limit"`
			}
			require.NoError(t, json.Unmarshal(raw, &op))
			operations++
			total := op.OperationID == "rush" // its lanes and the admission rate bound the total
			for _, l := range op.Limits {
				total = total || l.Of == "total"
				if l.Name == "" || l.Count <= 0 || l.Seconds <= 0 || l.Scope == "" {
					t.Errorf("%s %s: %+v", method, path, l)
				}
			}
			if len(op.Limits) == 0 || !total {
				t.Errorf("%s %s has the limits %+v, none of them in total", method, path, op.Limits)
			}
		}
	}
	if operations < 50 {
		t.Errorf("the document has only %d operations", operations)
	}
}

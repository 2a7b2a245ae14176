package change

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"stampede/platform/edge/auth"
)

// TestBytesThatAreNotUTF8AreNotKept checks that they are refused: the decoder
// turns them into U+FFFD.
func TestBytesThatAreNotUTF8AreNotKept(t *testing.T) {
	t.Parallel()
	d := setup(t).instance()
	now := time.Now().UTC()
	body := `{"name":"` + "caf\xe9" + `","starts_at":"` + now.Format(time.RFC3339) + `","ends_at":"` + now.Add(time.Hour).Format(time.RFC3339) + `"}`
	r := d.As(auth.Operator, http.MethodPost, "/api/v1/admin/activities", body)
	if r.Status != http.StatusUnprocessableEntity || !strings.Contains(string(r.Raw), "not sent as UTF-8") {
		t.Errorf("%d %s", r.Status, r.Raw)
	}
}

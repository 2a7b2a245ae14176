package alarm_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	"stampede/platform/watch/alarm"
)

// A receiver of the webhook reads the raw body, verifies it before parsing, and
// answers 2xx once it has stored the message.
func ExampleVerify() {
	secret := []byte("0123456789abcdef0123456789abcdef")
	now := func() time.Time { return time.Unix(1_760_000_000, 0) } // time.Now, outside of an example
	receive := func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 64<<10))
		if err != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		if err := alarm.Verify(r.Header, secret, now(), body); err != nil {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		var message struct {
			ID    string
			Alarm struct{ Code, Subject string }
		}
		if err := json.Unmarshal(body, &message); err != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		fmt.Println(message.ID, message.Alarm.Code, message.Alarm.Subject)
		w.WriteHeader(http.StatusNoContent)
	}

	const body = `{"id":"17-1","alarm":{"code":"dead-letter","subject":"inventory-release-closed"}}`
	r := httptest.NewRequest(http.MethodPost, "/alarms", strings.NewReader(body))
	r.Header.Set(alarm.HeaderTimestamp, "1760000000")
	r.Header.Set(alarm.HeaderSignature, "b37fc3061df2fb0c0b73714c764f1042da3020a2101e2c74eb97748c9d36a4ca")
	answer := httptest.NewRecorder()
	receive(answer, r)
	fmt.Println(answer.Code)

	r = httptest.NewRequest(http.MethodPost, "/alarms", strings.NewReader(strings.Replace(body, "17", "18", 1)))
	r.Header.Set(alarm.HeaderTimestamp, "1760000000")
	r.Header.Set(alarm.HeaderSignature, "b37fc3061df2fb0c0b73714c764f1042da3020a2101e2c74eb97748c9d36a4ca")
	answer = httptest.NewRecorder()
	receive(answer, r)
	fmt.Println(answer.Code)
	// Output:
	// 17-1 dead-letter inventory-release-closed
	// 204
	// 401
}

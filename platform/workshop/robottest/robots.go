// Package robottest is a local server that answers like the group robots of WeCom,
// DingTalk, Feishu and Slack, for tests.
package robottest

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// The robots' credentials.
const (
	Token  = "0a1b2c3d-4e5f" //nolint:gosec // of no robot
	Secret = "SECplanted0123456789"
	Slack  = "T01/B02/c03"
)

// perMinute is how many messages WeCom and DingTalk take of a robot.
const perMinute = 20

// Received is a message that a robot took.
type Received struct {
	Kind, Text string
	All        bool // it mentions everybody
}

// Server is all robots. Safe for concurrent use.
type Server struct {
	URL string

	mu    sync.Mutex
	took  []Received
	tried map[string]int
	down  map[string]int           // statuses that kinds answer instead
	hangs map[string]chan struct{} // kinds that answer only once this is closed
}

// New starts a server that ends with the test.
func New(t testing.TB) *Server {
	t.Helper()
	s := &Server{tried: map[string]int{}, down: map[string]int{}, hangs: map[string]chan struct{}{}}
	srv := httptest.NewServer(s)
	t.Cleanup(srv.Close)
	s.URL = srv.URL
	return s
}

// Address is a robot's, with its secret.
func (s *Server) Address(kind string) string {
	at := map[string]string{"slack": Slack, "dingtalk": Token + "?secret=" + Secret, "feishu": Token + "?secret=" + Secret}[kind]
	if at == "" {
		at = Token
	}
	return s.Via(kind + "://" + at)
}

// Via is another address at this server.
func (s *Server) Via(address string) string {
	sep := map[bool]string{true: "&", false: "?"}[strings.Contains(address, "?")]
	return address + sep + "via=" + s.URL
}

// Took returns the messages that a kind took.
func (s *Server) Took(kind string) (all []Received) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.took {
		if r.Kind == kind {
			all = append(all, r)
		}
	}
	return all
}

// Fail makes a kind answer a status, 0 nothing of it.
func (s *Server) Fail(kind string, status int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.down[kind] = status
}

// Hang makes a kind answer nothing until the returned function is called.
func (s *Server) Hang(kind string) (release func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	ch := make(chan struct{})
	s.hangs[kind] = ch
	return sync.OnceFunc(func() { close(ch) })
}

// body is what one of the robots is sent.
type body struct {
	MsgType  string `json:"msgtype"`
	FeishuAs string `json:"msg_type"`
	Text     json.RawMessage
	At       struct{ IsAtAll bool }
	Content  struct{ Text string }

	Timestamp, Sign string
}

func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	kind := map[string]string{"cgi-bin": "wecom", "robot": "dingtalk", "open-apis": "feishu", "services": "slack"}[strings.Split(r.URL.Path, "/")[1]]
	s.mu.Lock()
	hangs, down := s.hangs[kind], s.down[kind]
	s.tried[kind]++
	fast := s.tried[kind] > perMinute
	s.mu.Unlock()
	if hangs != nil {
		select {
		case <-hangs:
		case <-r.Context().Done():
			return
		}
	}
	if down != 0 {
		w.WriteHeader(down)
		return
	}
	var b body
	if err := json.NewDecoder(r.Body).Decode(&b); err != nil || r.Method != http.MethodPost || r.Header.Get("Content-Type") != "application/json" {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	got := Received{Kind: kind}
	q := r.URL.Query()
	switch kind {
	case "wecom":
		var text struct {
			Content   string
			Mentioned []string `json:"mentioned_list"`
		}
		_ = json.Unmarshal(b.Text, &text)
		got.Text, got.All = text.Content, len(text.Mentioned) == 1 && text.Mentioned[0] == "@all"
		s.answer(w, got, "errcode", "errmsg", first(
			refusal{q.Get("key") != Token, 93000, "invalid webhook url"},
			refusal{b.MsgType != "text" || text.Content == "" || len(text.Content) > 2048, 40058, "text.content exceed max length 2048"},
			refusal{fast, 45009, "api freq out of limit"}))
	case "dingtalk":
		var text struct{ Content string }
		_ = json.Unmarshal(b.Text, &text)
		got.Text, got.All = text.Content, b.At.IsAtAll
		s.answer(w, got, "errcode", "errmsg", first(
			refusal{q.Get("access_token") != Token, 300001, "token is not exist"},
			refusal{!fresh(q.Get("timestamp"), time.UnixMilli) || q.Get("sign") != mac(Secret, q.Get("timestamp")+"\n"+Secret), 310000, "sign not match"},
			refusal{b.MsgType != "text" || text.Content == "", 400105, "unsupported msgtype"},
			refusal{fast, 130101, "send too fast, exceed 20 times per minute"}))
	case "feishu":
		got.Text, got.All = b.Content.Text, strings.Contains(b.Content.Text, `<at user_id="all">`)
		sec := func(n int64) time.Time { return time.Unix(n, 0) }
		s.answer(w, got, "code", "msg", first(
			refusal{!strings.HasSuffix(r.URL.Path, "/bot/v2/hook/"+Token), 19001, "param invalid: incoming webhook access token invalid"},
			refusal{!fresh(b.Timestamp, sec) || b.Sign != mac(b.Timestamp+"\n"+Secret, ""), 19021, "sign match fail or timestamp is not within one hour from current time"},
			refusal{b.FeishuAs != "text" || b.Content.Text == "", 9499, "Bad Request"},
			refusal{fast, 11232, "frequency limited psm[lark.oapi.app_platform_runtime]appID[1500]"}))
	case "slack":
		_ = json.Unmarshal(b.Text, &got.Text)
		got.All = strings.Contains(got.Text, "<!channel>")
		switch {
		case r.URL.Path != "/services/"+Slack:
			http.Error(w, "no_service", http.StatusNotFound)
		case got.Text == "":
			http.Error(w, "no_text", http.StatusBadRequest)
		case fast:
			http.Error(w, "rate_limited", http.StatusTooManyRequests)
		default:
			s.take(got)
			_, _ = fmt.Fprint(w, "ok")
		}
	default:
		w.WriteHeader(http.StatusNotFound)
	}
}

type refusal struct {
	is   bool
	code int
	says string
}

// first is the refusal that applies first, or the success.
func first(of ...refusal) refusal {
	for _, r := range of {
		if r.is {
			return r
		}
	}
	return refusal{says: "ok"}
}

func (s *Server) answer(w http.ResponseWriter, got Received, code, msg string, r refusal) {
	if r.code == 0 {
		s.take(got)
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]any{code: r.code, msg: r.says})
}

func (s *Server) take(got Received) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.took = append(s.took, got)
}

// fresh reports whether a time stamp is within an hour of now.
func fresh(stamp string, at func(int64) time.Time) bool {
	n, err := strconv.ParseInt(stamp, 10, 64)
	return err == nil && math.Abs(time.Since(at(n)).Hours()) < 1
}

// mac is a signature as the providers' documents compute it.
func mac(key, text string) string {
	h := hmac.New(sha256.New, []byte(key))
	h.Write([]byte(text))
	return base64.StdEncoding.EncodeToString(h.Sum(nil))
}

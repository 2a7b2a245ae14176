package wechattest

import (
	"crypto/rand"
	"encoding/json"
	"net/http"
	"slices"
)

// TemplateID is the one that both apps have; its field is thing1, of up to 20 characters.
const TemplateID = "template-of-the-shop"

// Message is one that was taken.
type Message struct {
	App      string
	OpenID   string `json:"touser"`
	Template string `json:"template_id"`
	Data     map[string]struct{ Value string }
	Page     string
	URL      string
	ID       string `json:"client_msg_id"`
}

// WeChat's error codes about messages.
const (
	badToken    = 40001
	notFollowed = 43004
	notAgreed   = 43101
	badTemplate = 40037
	badData     = 47003
)

// Messages returns the messages so far, and how often a token was asked for.
func (s *Server) Messages() (got []Message, tokens int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.got), s.asked
}

// Withdraw makes the tokens so far invalid, as a forced refresh elsewhere does.
func (s *Server) Withdraw() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.token)
}

// stableToken answers each caller with the same token until it is withdrawn.
func (s *Server) stableToken(w http.ResponseWriter, r *http.Request) {
	var in struct {
		Grant  string `json:"grant_type"`
		AppID  string `json:"appid"`
		Secret string
		Force  bool `json:"force_refresh"`
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked++
	switch err := json.NewDecoder(r.Body).Decode(&in); {
	case err != nil || in.Grant != "client_credential":
		s.tell(w, badGrant)
	case in.AppID != s.AppID && in.AppID != s.MiniAppID:
		s.tell(w, badAppID)
	case in.Secret != s.Secret:
		s.tell(w, badSecret)
	default:
		if s.token[in.AppID] == "" || in.Force {
			s.token[in.AppID] = rand.Text()
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"access_token": s.token[in.AppID], "expires_in": 7200})
	}
}

// tell answers with a code, 0 for what went well.
func (*Server) tell(w http.ResponseWriter, code int) {
	_ = json.NewEncoder(w).Encode(map[string]any{"errcode": code, "errmsg": "about the request, rid: 0123-4567"})
}

// take takes a message of an app, with status 200 whatever it answers.
func (s *Server) take(w http.ResponseWriter, r *http.Request, app string) {
	m := Message{App: app}
	err := json.NewDecoder(r.Body).Decode(&m)
	s.mu.Lock()
	defer s.mu.Unlock()
	switch ill := s.ill.Load(); {
	case ill == 1:
		http.Error(w, "<html>502</html>", http.StatusBadGateway)
	case ill != 0:
		s.tell(w, int(ill))
	case s.token[app] == "" || r.URL.Query().Get("access_token") != s.token[app]:
		s.tell(w, badToken)
	case err != nil || len(m.ID) > 32 || len(m.Data) != 1 || m.Data["thing1"].Value == "" || len([]rune(m.Data["thing1"].Value)) > 20:
		s.tell(w, badData)
	case m.Template != TemplateID:
		s.tell(w, badTemplate)
	case s.Subscribed[m.OpenID] == 0 && app == s.AppID:
		s.tell(w, notFollowed)
	case s.Subscribed[m.OpenID] == 0:
		s.tell(w, notAgreed)
	case m.ID != "" && slices.ContainsFunc(s.got, func(o Message) bool { return o.ID == m.ID && o.OpenID == m.OpenID }):
		s.tell(w, 0)
	default:
		if app == s.MiniAppID {
			s.Subscribed[m.OpenID]--
		}
		s.got = append(s.got, m)
		s.tell(w, 0)
	}
}

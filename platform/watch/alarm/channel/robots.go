package channel

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"stampede/platform/base/fault"
	"stampede/platform/edge/outbound"
)

// textBytes is what WeCom takes, the least of all, without the mention.
const textBytes = 2000

// robot is what a group's robot takes and answers.
type robot struct {
	host  string
	signs bool
	// request is the path and the body of a message.
	request func(a Address, text string, urgent bool, now time.Time) (path string, body any)
	// causes explain its codes; a status of 400 and above is one too.
	causes map[int]*cause
}

// cause is why a robot refuses.
type cause struct {
	throttled bool
	next      fault.Text
}

var (
	tooFast = &cause{true, fault.T("The robot gets too many messages at the moment. Nothing is to be done: the message is sent later.",
		"机器人收到的消息过于频繁，无需处理，稍后会自动补发。")}
	gone = &cause{false, fault.T("The robot is no longer in its group, or the address is wrong. Add a robot to the group and put its new address into the settings.",
		"机器人已被移出群聊或地址有误。请在群里重新添加机器人，并在设置中更换地址。")}
	unsafe = &cause{false, fault.T("The robot's security settings refuse the message. Put its sign secret into the address (?secret=…), check this machine's clock, and set neither keywords nor a list of IP addresses without this server's.",
		"机器人的安全设置拒绝了消息。请在地址中加上加签密钥（?secret=…），校准本机时间，不要设置关键词，IP 白名单须包含本服务器。")}
	unknown = &cause{false, fault.T("Compare the address with the one that the robot's settings show.", "请将地址与机器人设置页面显示的地址核对。")}
	away    = &cause{false, fault.T("Check whether the provider is well and this server reaches it (firewall, proxy).", "请检查服务商是否正常，以及本服务器能否访问它（防火墙、代理）。")}
)

// robots are by the scheme of their addresses.
var robots = map[string]*robot{
	"wecom":    {"https://qyapi.weixin.qq.com", false, wecom, map[int]*cause{93000: gone, 45009: tooFast, 45033: tooFast}},
	"dingtalk": {"https://oapi.dingtalk.com", true, dingtalk, map[int]*cause{310000: unsafe, 300001: gone, 300005: gone, 400013: gone, 400101: gone, 400102: gone, 400106: gone, 130101: tooFast, 410100: tooFast}},
	"feishu":   {"https://open.feishu.cn", true, feishu, feishuCauses},
	"lark":     {"https://open.larksuite.com", true, feishu, feishuCauses},
	"slack":    {"https://hooks.slack.com", false, slack, map[int]*cause{http.StatusForbidden: gone, http.StatusNotFound: gone, http.StatusGone: gone}},
}

var feishuCauses = map[int]*cause{19001: gone, 19021: unsafe, 19022: unsafe, 19024: unsafe, 11232: tooFast, 11247: tooFast}

func wecom(a Address, text string, urgent bool, _ time.Time) (string, any) {
	content := map[string]any{"content": text}
	if urgent {
		content["mentioned_list"] = []string{"@all"}
	}
	return "/cgi-bin/webhook/send?key=" + a.to, map[string]any{"msgtype": "text", "text": content}
}

func dingtalk(a Address, text string, urgent bool, now time.Time) (string, any) {
	path := "/robot/send?access_token=" + a.to
	if a.secret != "" {
		stamp := strconv.FormatInt(now.UnixMilli(), 10)
		path += "&timestamp=" + stamp + "&sign=" + url.QueryEscape(sign(a.secret, stamp+"\n"+a.secret))
	}
	return path, map[string]any{"msgtype": "text", "text": map[string]string{"content": text}, "at": map[string]bool{"isAtAll": urgent}}
}

func feishu(a Address, text string, urgent bool, now time.Time) (string, any) {
	text = strings.ReplaceAll(text, "<", "‹") // a detail must not mention anybody
	if urgent {
		text = `<at user_id="all"></at> ` + text
	}
	body := map[string]any{"msg_type": "text", "content": map[string]string{"text": text}}
	if a.secret != "" {
		stamp := strconv.FormatInt(now.Unix(), 10)
		body["timestamp"], body["sign"] = stamp, sign(stamp+"\n"+a.secret, "")
	}
	return "/open-apis/bot/v2/hook/" + a.to, body
}

func slack(a Address, text string, urgent bool, _ time.Time) (string, any) {
	text = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;").Replace(text)
	if urgent {
		text = "<!channel> " + text
	}
	return "/services/" + a.to, map[string]string{"text": text}
}

// sign is a signature as DingTalk and Feishu define it, each with another key and text.
func sign(key, text string) string {
	mac := hmac.New(sha256.New, []byte(key))
	mac.Write([]byte(text))
	return base64.StdEncoding.EncodeToString(mac.Sum(nil))
}

// RefusedError is an answer that means that a message was not sent.
type RefusedError struct {
	Answer string
	cause  *cause
}

// Error has the answer and what to do.
func (r *RefusedError) Error() string { return "answer " + r.Answer + ": " + r.cause.next[0] }

// Throttled reports whether a message was refused only because there were too many.
func Throttled(err error) bool {
	r, ok := errors.AsType[*RefusedError](err)
	return ok && r.cause.throttled
}

// Next is what to do about an error of Send.
func Next(err error) fault.Text {
	if r, ok := errors.AsType[*RefusedError](err); ok {
		return r.cause.next
	}
	if f, ok := errors.AsType[*fault.Error](err); ok {
		return f.Next
	}
	return away.next
}

// post sends to a robot.
func (c *Channel) post(ctx context.Context, m Message) (answer string, err error) {
	r := robots[c.kind]
	path, body := r.request(c.Address, m.fit(textBytes), m.Urgent, time.Now())
	raw, err := json.Marshal(body)
	if err != nil {
		return "", fmt.Errorf("channel: encode: %w", err)
	}
	err = c.client.Do(ctx, outbound.Request{URL: c.host + path, Body: raw, Type: "application/json"}, func(reply outbound.Reply) error {
		answer, err = r.verdict(reply, c.to)
		return err
	})
	return answer, err
}

// verdict reads a robot's answer. Slack's is a word, and the status is its code. A proxy's page may repeat the path, and with
// it the secret.
func (r *robot) verdict(reply outbound.Reply, secret string) (answer string, err error) {
	code, said := 0, strings.TrimSpace(string(reply.Body))
	var doc struct {
		ErrCode *int   `json:"errcode"`
		ErrMsg  string `json:"errmsg"`
		Code    *int   `json:"code"`
		Msg     string `json:"msg"`
	}
	isDoc := json.Unmarshal(reply.Body, &doc) == nil
	switch {
	case isDoc && doc.ErrCode != nil:
		code, said = *doc.ErrCode, doc.ErrMsg
	case isDoc && doc.Code != nil:
		code, said = *doc.Code, doc.Msg
	case reply.Status != http.StatusOK || said != "ok":
		code = reply.Status
	}
	answer = fmt.Sprintf("%d %q", code, strings.ReplaceAll(said, secret, "…"))
	switch why := r.causes[code]; {
	case code == 0 && reply.Status == http.StatusOK:
		return answer, nil
	case why != nil:
		return answer, &RefusedError{answer, why}
	case reply.Status == http.StatusTooManyRequests:
		return answer, &RefusedError{answer, tooFast}
	case reply.Status >= http.StatusInternalServerError:
		return answer, &RefusedError{answer, away}
	default:
		return answer, &RefusedError{answer, unknown}
	}
}

// fit is the message in so many bytes: its text is cut, its title and its link are not.
func (m Message) fit(most int) string {
	room := max(0, most-len(m.Title)-len(m.Link)-len("\n…\n"))
	text := m.Text
	if len(text) > room {
		text = strings.ToValidUTF8(text[:room], "") + "…"
	}
	return m.Title + "\n" + text + "\n" + m.Link
}

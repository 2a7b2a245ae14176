package bus

import (
	"errors"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"stampede/platform/base/fault"
)

// The errors of Publish. The difference matters to a caller that has already
// taken stock: after ErrFull and ErrUnhealthy the message is certainly not
// stored, after ErrUnknown it may be.
var (
	// ErrUnknown means that the message may be stored: no clear answer came
	// before the deadline. The caller must not undo the effect that the message
	// announces.
	ErrUnknown = fault.New(fault.Unavailable, "unknown", fault.T("The outcome is not known yet", "结果确认中，请查询订单"),
		fault.T("The outcome is not known yet. Look up the order by its number.", "结果尚未确认，请按订单号查询。"),
		fault.T("Look up the order by its number in a moment.", "请稍后按订单号查询结果。"))
	// ErrFull means that the stream has reached its bound and refused the message.
	ErrFull = fault.New(fault.Unavailable, "bus-full",
		fault.T("Too much work is waiting; try again in a moment", "太火爆了，请稍后再试"),
		fault.T("Too much work is waiting to be written. Try again shortly.", "待写入的内容过多，请稍后重试。"),
		fault.T("Repeat the request in a moment.", "请稍后重试。"))
	// ErrUnhealthy means that the streams currently cannot store messages.
	ErrUnhealthy = fault.New(fault.Unavailable, "bus-unhealthy",
		fault.T("The message stream is being restored", "系统正在恢复，请稍后再试"),
		fault.T("The message stream is being restored. Try again shortly.", "消息流正在恢复，请稍后重试。"),
		fault.T("Try again in a moment. If it persists, operators check the open alarms.",
			"请稍后重试；若持续出现，运营人员请查看未处理的告警。"))
	// ErrRefused means that the stream will never take this message, however
	// often it is sent: it is too large, or no stream has its subject.
	ErrRefused = fault.New(fault.Internal, "bus-refused", fault.T("The message was not accepted", "消息无法接收"),
		fault.T("The message stream does not accept this message.", "消息流无法接收该消息。"),
		fault.T("Send the request id to the operator.", "请将请求编号告知运营人员。"))
)

// Server error codes that nats.go has no names for.
const (
	codeNoPeers               jetstream.ErrorCode = 10005 // fewer servers than replicas
	codeInsufficientResources nats.ErrorCode      = 10023 // the server's own limit
	codeAccountResources      nats.ErrorCode      = 10002 // the account's limit
	codeMessageTooLarge       nats.ErrorCode      = 10054 // the stream's MaxMsgSize
	codeStoreFailed           nats.ErrorCode      = 10077 // the stream's limit, with DiscardNew
	codeDuplicateInProcess    nats.ErrorCode      = 10158 // a cluster is already storing this id
)

// refusal maps the outcome of one attempt to what it proves. It returns nil
// when the message may have been stored, else one of ErrFull, ErrUnhealthy and
// ErrRefused with err as its cause.
func refusal(err error) error {
	if api, ok := errors.AsType[*jetstream.APIError](err); ok {
		switch nats.ErrorCode(api.ErrorCode) {
		case codeDuplicateInProcess:
			return nil
		case codeStoreFailed, codeInsufficientResources, codeAccountResources:
			return ErrFull.Because(err)
		case codeMessageTooLarge:
			return ErrRefused.Because(err)
		default:
			return ErrUnhealthy.Because(err)
		}
	}
	switch {
	case errors.Is(err, nats.ErrMaxPayload), errors.Is(err, nats.ErrBadSubject), errors.Is(err, nats.ErrHeadersNotSupported):
		return ErrRefused.Because(err)
	case errors.Is(err, nats.ErrNoResponders), errors.Is(err, jetstream.ErrNoStreamResponse),
		// Without a reconnect buffer these two mean that nothing was written.
		errors.Is(err, nats.ErrReconnectBufExceeded), errors.Is(err, nats.ErrConnectionClosed):
		return ErrUnhealthy.Because(err)
	}
	return nil
}

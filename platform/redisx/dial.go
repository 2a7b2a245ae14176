package redisx

import (
	"crypto/tls"
	"net"
	"time"
)

type netConn = net.Conn

func dialer(timeout time.Duration) *net.Dialer {
	return &net.Dialer{Timeout: timeout, KeepAlive: time.Minute}
}

func tlsConfig() *tls.Config { return &tls.Config{MinVersion: tls.VersionTLS12} }

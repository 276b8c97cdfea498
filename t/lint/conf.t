#!/usr/bin/env perl

# Each conf/*.conf passes nginx -t, touching nothing, and runs.

use strict;
use warnings;

use FindBin;
use Test::More;

use Test::KafkaNginx;

for my $path (glob "$FindBin::Bin/../../conf/*.conf") {
    my ($name) = $path =~ m{([^/]+)$};
    my $t = Test::KafkaNginx->new(workers => 2);
    my ($text, @ports) = example($t, $path);

    my ($rc, $out) = $t->check_conf($text);
    is($rc, 0, "$name: nginx -t") or diag($out);
    ok(!-e $t->dir . '/nginx-kafka', "$name: nginx -t made no directory");
    next if $rc;

    $t->{conf} = $text;
    $t->run(ready => 0);

    for my $port (@ports) {
        if ($port->{ssl}) {
            like(qx(kcat -b 127.0.0.1:$port->{port} -L -m 10 -X \\
                security.protocol=ssl -X enable.ssl.certificate.verification=0 \\
                2>&1), qr/broker 1 at kafka.example.com:9093/,
                "$name: answers under TLS, and advertises the name");

        } elsif ($port->{http}) {
            like(get($port->{port}), qr/^HTTP\/1.1 200.*a site/s,
                "$name: the site");

        } else {
            $t->wait_ready($port->{port});
            my $c = $t->client(port => $port->{port});
            is($c->create_topic('a', 1)->{ErrorCode}, 0, "$name: a topic");
        }
    }

    $t->hidden_checks;
}

done_testing();


# The file with our paths and ports instead of the system's.
sub example {
    my ($t, $path) = @_;
    my ($n, %ports, @ports) = (0);

    open my $f, '<', $path or die "$path: $!";
    my $text = do { local $/; <$f> };
    my ($http) = $text =~ /^http \{(.*?)^\}/ms;

    for ($text) {
        s{^load_module .*\n}{}mg;
        s{^(?:user|worker_processes|pid|error_log)\s.*\n}{}mg;
        s{/var/lib}{%%DIR%%}g;
        s{/etc/nginx/tls}{%%DIR%%}g;
        s{listen(\s+)((?:127\.0\.0\.1:)?)(\d+)((?: ssl)?)}{
            my ($gap, $number, $ssl) = ($1, $3, $4);
            push @ports, { port => $t->port($n), ssl => $ssl,
                http => scalar(($http // "") =~ /listen\s+$number/) };
            "listen${gap}127.0.0.1:" . $t->port($n++) . $ssl;
        }ge;
    }

    if ($text =~ /ssl_certificate/) {
        system("openssl req -x509 -newkey rsa:2048 -nodes -days 2"
            . " -subj /CN=kafka.example.com -keyout $t->{dir}/kafka.key"
            . " -out $t->{dir}/kafka.crt >/dev/null 2>&1") == 0
            or die "openssl\n";
    }

    return ("%%GLOBALS%%\n$text", @ports);
}


sub get {
    my ($port) = @_;

    my $s = IO::Socket::INET->new(PeerAddr => "127.0.0.1:$port") or return '';
    print $s "GET / HTTP/1.0\r\n\r\n";
    local $/;

    return <$s>;
}

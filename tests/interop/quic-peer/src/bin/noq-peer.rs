//! noq as a peer.

use noq as stack;

include!("../peer.rs");

/// Another run of this program knows the connection IDs of one before.
fn keep_ids(config: &mut EndpointConfig) {
    config.cid_generator(Arc::new(|| Box::new(noq_proto::HashedConnectionIdGenerator::from_key(7))));
}

/// `paths=N`: how many there may be at the same time.
fn transport(words: &Words) -> Outcome<Option<Arc<stack::TransportConfig>>> {
    let Some(count) = words.get("paths") else { return Ok(None) };
    let mut config = stack::TransportConfig::default();
    config.max_concurrent_multipath_paths(count.parse()?);
    // The relay carries single datagrams.
    config.enable_segmentation_offload(false);
    config.default_path_keep_alive_interval(Some(Duration::from_secs(1)));
    if let Some(millis) = words.get("path_idle_ms") {
        config.default_path_max_idle_timeout(Some(Duration::from_millis(millis.parse()?)));
    }
    Ok(Some(Arc::new(config)))
}

/// Says what happens to the paths of a connection.
fn watch_paths(connection: &Connection) {
    let mut events = connection.path_events();
    let follows = connection.weak_handle();
    tokio::spawn(async move {
        use tokio_stream::StreamExt as _;

        // What the other end wants is the application's to follow.
        let follow = |id, status| {
            if let Some(path) = follows.upgrade().and_then(|connection| connection.path(id)) {
                let _ = path.set_status(status);
            }
        };

        while let Some(event) = events.next().await {
            let (id, change) = match event {
                Ok(stack::PathEvent::Established { id, .. }) => (id, "validated"),
                Ok(stack::PathEvent::Abandoned { id, .. }) => (id, "abandoned"),
                Ok(stack::PathEvent::RemoteStatus { id, status, .. }) => {
                    follow(id, status);
                    (id, if matches!(status, stack::PathStatus::Backup) { "backup" } else { "available" })
                }
                _ => continue,
            };
            say("path", &format!(r#", "path": {id}, "change": "{change}""#));
        }
    });
}

/// Of a client: `open LOCAL REMOTE STATUS`; of both: `abandon PATH`, `status PATH STATUS`, `paths`.
async fn steer(connection: &Connection, words: &[&str]) -> Outcome<bool> {
    let status = |word: &str| match word {
        "backup" => stack::PathStatus::Backup,
        _ => stack::PathStatus::Available,
    };
    let path = |word: &str| -> Outcome<stack::Path> {
        Ok(connection.path(stack::PathId::from(word.parse::<u32>()?)).ok_or("no such path")?)
    };
    match *words {
        ["open", local, remote, wanted] => {
            let way = stack::FourTuple::new(remote.parse()?, Some(local.parse()?));
            for _ in 0..200 {
                match connection.open_path(way, stack::PathStatus::Available).await {
                    Ok(path) => {
                        // Of a path that begins as a backup, the other end is not told.
                        path.set_status(status(wanted))?;
                        say("opened", &format!(r#", "path": {}"#, path.id()));
                        return Ok(true);
                    }
                    // The other end's connection IDs come a little later than the handshake.
                    Err(stack::PathError::RemoteCidsExhausted) => {
                        tokio::time::sleep(Duration::from_millis(20)).await;
                    }
                    Err(error) => {
                        say("opened", &format!(r#", "why": "{error}""#));
                        return Ok(true);
                    }
                }
            }
            say("opened", r#", "why": "no connection IDs came""#);
        }
        ["abandon", id] => {
            let result = path(id)?.close();
            say("abandoning", &format!(r#", "why": "{result:?}""#));
        }
        ["status", id, wanted] => {
            path(id)?.set_status(status(wanted))?;
            say("status", "");
        }
        ["paths"] => {
            let mut rows = Vec::new();
            for id in 0..16_u32 {
                if let Some(stats) = connection.path_stats(stack::PathId::from(id)) {
                    rows.push(format!("[{id}, {}, {}]", stats.udp_tx.bytes, stats.udp_rx.bytes));
                }
            }
            say("paths", &format!(r#", "paths": [{}]"#, rows.join(", ")));
        }
        _ => return Ok(false),
    }
    Ok(true)
}

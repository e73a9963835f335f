//! Objects nested in one another, such as the frames of a stack, read in one pass.

use super::MemberPlace;
use super::{JsonScanner, MemberSlots, OpenObjects, Stop, Value};
use crate::ReadError;
use std::ops::Range;

/// Which objects are read, and which of their members.
#[derive(Clone, Copy, Debug)]
pub struct NestedShape<'k, const N: usize> {
    /// The names of the members that are kept.
    pub keys: [&'k str; N],
    /// The name of the member with the list of inner objects.
    pub inner: &'k str,
    /// Returns true if a member's name is one of these.
    pub is_name: fn(&[u8], &str) -> bool,
    /// True for all objects of each list, false for the first one.
    pub has_branches: bool,
    /// The maximum depth.
    pub depth_limit: usize,
    /// The maximum number of objects.
    pub count_limit: usize,
}

/// An object of a chain or of a tree.
#[derive(Clone, Debug)]
pub struct NestedObject<'a, const N: usize> {
    /// The position of the object that it lies in.
    pub outer: Option<usize>,
    /// The members with the requested names. The last one of each name counts.
    pub members: [Option<Value<'a>>; N],
    place: MemberPlace,
    own: Option<Value<'a>>,
}

impl<'a, const N: usize> NestedObject<'a, N> {
    /// Returns the place of our member. `is_enriched` is true if the document's own member is ours.
    #[must_use]
    pub fn member_place(&self, is_enriched: bool) -> MemberPlace {
        if is_enriched { self.place.clone() } else { self.place.clone().without_own() }
    }

    /// Returns the value of its last member if that is an object with our key.
    #[must_use]
    pub fn own_value(&self) -> Option<Value<'a>> {
        self.own
    }
}

/// An object that is being read.
struct OpenObject {
    /// Its position in the chain.
    position: usize,
    members: usize,
    own: Option<Range<usize>>,
    list: Option<OpenObjects>,
}

/// Reads nested objects in one pass over their bytes.
struct NestedReader<'a, 'k, const N: usize> {
    scanner: JsonScanner<'a>,
    shape: &'k NestedShape<'k, N>,
    slots: MemberSlots,
    open: Vec<OpenObject>,
    found: Vec<NestedObject<'a, N>>,
}

impl<'a> Value<'a> {
    /// Reads this object and the objects in its list, and so on: all of them, or the first one of each list. An object stands
    /// before the objects in it. Returns none for any other value.
    ///
    /// # Errors
    /// Returns [`ReadError`] if there are more objects than the limits of the shape.
    pub fn read_nested<const N: usize>(
        self,
        shape: &NestedShape<'_, N>,
    ) -> Result<Vec<NestedObject<'a, N>>, ReadError> {
        let (scanner, slots) = (self.scanner(), MemberSlots::new(""));
        let mut reader = NestedReader { scanner, shape, slots, open: Vec::new(), found: Vec::new() };
        if self.is_object() {
            reader.open_object()?;
            while reader.read_step()? {}
        }
        Ok(reader.found)
    }
}

impl<const N: usize> NestedReader<'_, '_, N> {
    fn open_object(&mut self) -> Result<(), Stop> {
        let (offset, shape) = (self.scanner.pos(), self.shape);
        if self.open.len() == shape.depth_limit {
            return Err(ReadError::TreeTooDeep { offset, limit: shape.depth_limit }.into());
        }
        if self.found.len() == shape.count_limit {
            return Err(ReadError::TooManyItems { offset, limit: shape.count_limit }.into());
        }
        self.scanner.open_object();
        let outer = self.open.last().map(|object| object.position);
        self.open.push(OpenObject { position: self.found.len(), members: 0, own: None, list: None });
        self.found.push(NestedObject { outer, members: [None; N], place: MemberPlace::default(), own: None });
        Ok(())
    }

    /// Reads the next member of the innermost object, or its end. Returns false after the end of the outermost one.
    fn read_step(&mut self) -> Result<bool, Stop> {
        let (s, shape) = (&mut self.scanner, self.shape);
        let Some(object) = self.open.last_mut() else { return Ok(false) };
        let Some(found) = self.found.get_mut(object.position) else { return Ok(false) };
        let Some(member) = s.next_member(object.members)? else {
            self.close_object()?;
            return Ok(true);
        };
        object.members += 1;
        (object.own, found.own) = (None, None);
        let is_inner = (shape.is_name)(&member.key, shape.inner);
        if is_inner && s.peek_byte() == Some(b'[') && object.list.is_none() {
            object.list = s.open_objects(self.slots.slot_for(0, "inner"))?;
            if let Some(list) = &mut object.list
                && s.next_object(list)?
            {
                self.open_object()?;
            }
            return Ok(true);
        }
        let value = s.current_value();
        s.skip_value()?;
        for (key, place) in shape.keys.iter().zip(&mut found.members) {
            if (shape.is_name)(&member.key, key) {
                *place = Some(value);
            }
        }
        if member.has_key("symbolication") && value.is_object() {
            (object.own, found.own) = (Some(member.separator..s.pos()), Some(value));
        }
        Ok(true)
    }

    fn close_object(&mut self) -> Result<(), Stop> {
        let Some(object) = self.open.pop() else { return Ok(()) };
        let has_members = object.members > usize::from(object.own.is_some());
        let insert_at = self.scanner.close_object();
        if let Some(found) = self.found.get_mut(object.position) {
            found.place = MemberPlace { insert_at, has_members, own_member: object.own };
        }
        while let Some(list) = self.open.last_mut().and_then(|outer| outer.list.as_mut()) {
            match self.scanner.next_object(list)? {
                true if self.shape.has_branches => return self.open_object(),
                // Further objects of a list belong to no chain.
                true => self.scanner.skip_value()?,
                false => break,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ReadLimits;

    #[test]
    fn a_chain_has_the_first_object_of_each_list_and_a_tree_has_all() {
        let text = br#"{"a":1,"in":[7,{"in":[{"a":3,"in":[]},{"a":9}],"a":2,"symbolication":{}},{"in":[{}]}],"b":{}}"#;
        let (root, _) = Value::read(text, 0, &ReadLimits::default()).unwrap();
        let shape = NestedShape {
            keys: ["a", "b"],
            inner: "in",
            is_name: |name, key| name == key.as_bytes(),
            has_branches: false,
            depth_limit: 8,
            count_limit: 8,
        };
        let chain = root.read_nested(&shape).unwrap();
        let numbers: Vec<Option<u64>> = chain.iter().map(|object| object.members[0]?.as_unsigned()).collect();
        assert_eq!(numbers, [Some(1), Some(2), Some(3)]);
        assert!(chain[0].members[1].is_some() && chain[0].own_value().is_none());
        let place = chain[1].member_place(true);
        assert_eq!(text.get(place.insert_at), Some(&b'}'));
        assert_eq!(&text[place.own_member.unwrap()], b",\"symbolication\":{}");
        assert_eq!(chain[1].member_place(false).own_member, None);
        assert_eq!(chain[0].place.insert_at, text.len() - 1);
        let shallow = NestedShape { depth_limit: 2, ..shape };
        assert!(matches!(root.read_nested(&shallow), Err(ReadError::TreeTooDeep { limit: 2, .. })));
        let tree = root.read_nested(&NestedShape { has_branches: true, ..shape }).unwrap();
        let outer: Vec<Option<usize>> = tree.iter().map(|object| object.outer).collect();
        assert_eq!(outer, [None, Some(0), Some(1), Some(1), Some(0), Some(4)]);
        let few = NestedShape { has_branches: true, count_limit: 5, ..shape };
        assert!(matches!(root.read_nested(&few), Err(ReadError::TooManyItems { limit: 5, .. })));
        let (number, _) = Value::read(b"7", 0, &ReadLimits::default()).unwrap();
        assert!(number.read_nested(&shape).unwrap().is_empty());
    }
}
